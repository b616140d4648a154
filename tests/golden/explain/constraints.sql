CREATE STREAM step (kind STRING, order_id BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 2 SECONDS) USING feed;
CREATE CONSTRAINTS process ON step FROM WORKFLOW 'order_fulfilment' REUSE KEYS;

-- of all that the workflow says, only what can still tell something is watched
CREATE CQ expensive AS EVENT SEQ(CheckInventory, UseRemoteStock, GenerateInvoice g) FROM step TYPE kind
  WHERE [order_id] AND g.price > 200;

-- branches fail one by one
CREATE CQ quoted AS EVENT SEQ(OR(SEQ(OrderFromSupplier, GenerateQuote q), SEQ(UseRemoteStock, GenerateInvoice)), FinishOrder) FROM step TYPE kind
  WHERE [order_id] AND q.price > 200 WITHIN 1 day;

-- an alternative that never matches is named with its proof, the other one is sought
CREATE CQ odd AS EVENT OR(SEQ(UseLocalStock, UseRemoteStock u), SEQ(SendQuote, CancelOrder)) FROM step TYPE kind
  WHERE [order_id] WITHIN 1 day;

-- without them
CREATE CQ plain AS EVENT SEQ(UseLocalStock, UseRemoteStock) FROM step TYPE kind WHERE [order_id] WITHIN 1 day OPTIONS (reasoning 'off');

----
application constraints: 1 round on 2 shards, state bounded

query expensive
  PatternMatch SEQ(CheckInventory, UseRemoteStock, GenerateInvoice g) by order_id [until RejectOrder or FinishOrder or CancelOrder]  round 1 by order_id
  . automaton: 0 -CheckInventory-> 1 -UseRemoteStock-> 2 -GenerateInvoice g-> 3 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . tested before an event is stored: g: price > 200
  . constraints; an event that breaks them is set aside with the reason
  . leaves: CheckInventory, UseRemoteStock after CheckInventory, GenerateInvoice after UseRemoteStock
  . verdict: can match
  . fail at once:
  .   RejectOrder fails the query: RejectOrder and CheckInventory never occur together by exclusive(RejectOrder, CheckInventory)
  .   UseLocalStock fails the query: UseLocalStock and UseRemoteStock never occur together by exclusive(UseLocalStock, UseRemoteStock)
  . fail while something is unmatched:
  .   CheckInventory fails the query: CheckInventory is not matched yet and no CheckInventory comes after a CheckInventory by at_most_once(CheckInventory)
  .   UseRemoteStock fails the query: UseRemoteStock is not matched yet and no UseRemoteStock comes after a UseRemoteStock by at_most_once(UseRemoteStock)
  .   GenerateInvoice fails the query: UseRemoteStock is not matched yet and no UseRemoteStock comes after a GenerateInvoice by prior(UseRemoteStock, GenerateInvoice)
  .   GenerateInvoice fails the query: GenerateInvoice is not matched yet and no GenerateInvoice comes after a GenerateInvoice by at_most_once(GenerateInvoice)
  . events to look at: RejectOrder, CheckInventory, UseLocalStock, UseRemoteStock, GenerateInvoice, FinishOrder, CancelOrder
  . not checked: constraints on ReceiveOrder, CheckCredit, OrderFromSupplier, GenerateQuote, SendQuote, SendInvoice, ConfirmOrder, ReceivePayment, AllocateCarrier, PackOrder, PrintLabel, NotifyCustomer, AuditOrder, ReviewOrder, which the search does not look at; OPTIONS (reasoning 'exact') does
  . skip-till-any-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds
  . events: RejectOrder or FinishOrder or CancelOrder ends its trace; events of open traces of order_id
  . if every order_id has its RejectOrder or FinishOrder or CancelOrder
    Select kind IN ('CancelOrder', 'CheckInventory', 'FinishOrder', 'GenerateInvoice', 'GenerateQuote', 'OrderFromSupplier', 'RejectOrder', 'SendQuote', 'UseLocalStock', 'UseRemoteStock')  Catalyst
      Scan step  Catalyst

query quoted
  PatternMatch SEQ(OR(SEQ(OrderFromSupplier, GenerateQuote q), SEQ(UseRemoteStock, GenerateInvoice)), FinishOrder) by order_id [within 1 day, until RejectOrder or FinishOrder or CancelOrder]  round 1 by order_id
  . automaton of alternative 0: 0 -OrderFromSupplier-> 1 -GenerateQuote q-> 2 -FinishOrder-> 3 match
  . automaton of alternative 1: 0 -UseRemoteStock-> 1 -GenerateInvoice-> 2 -FinishOrder-> 3 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . tested before an event is stored: q: price > 200
  . constraints; an event that breaks them is set aside with the reason
  . leaves: OrderFromSupplier, GenerateQuote after OrderFromSupplier, UseRemoteStock, GenerateInvoice after UseRemoteStock, FinishOrder after GenerateQuote and GenerateInvoice
  . branches (mask: 2 alternatives alive at the start):
  .   the branch of OrderFromSupplier, GenerateQuote
  .   the branch of UseRemoteStock, GenerateInvoice
  . verdict: can match
  . fail at once:
  .   RejectOrder fails the query: RejectOrder and FinishOrder never occur together by exclusive(RejectOrder, FinishOrder)
  .   CancelOrder fails the query: FinishOrder and CancelOrder never occur together by exclusive(FinishOrder, CancelOrder)
  .   RejectOrder fails the branch of OrderFromSupplier, GenerateQuote: RejectOrder and OrderFromSupplier never occur together by exclusive(RejectOrder, OrderFromSupplier)
  .   CancelOrder fails the branch of OrderFromSupplier, GenerateQuote: FinishOrder and CancelOrder never occur together by exclusive(FinishOrder, CancelOrder)
  .   RejectOrder fails the branch of UseRemoteStock, GenerateInvoice: RejectOrder and UseRemoteStock never occur together by exclusive(RejectOrder, UseRemoteStock)
  .   UseLocalStock fails the branch of UseRemoteStock, GenerateInvoice: UseLocalStock and UseRemoteStock never occur together by exclusive(UseLocalStock, UseRemoteStock)
  .   CancelOrder fails the branch of UseRemoteStock, GenerateInvoice: FinishOrder and CancelOrder never occur together by exclusive(FinishOrder, CancelOrder)
  . fail while something is unmatched:
  .   FinishOrder fails the query: FinishOrder is not matched yet and no FinishOrder comes after a FinishOrder by terminal(FinishOrder)
  .   OrderFromSupplier fails the branch of OrderFromSupplier, GenerateQuote: OrderFromSupplier is not matched yet and no OrderFromSupplier comes after a OrderFromSupplier by at_most_once(OrderFromSupplier)
  .   SendQuote fails the branch of OrderFromSupplier, GenerateQuote: GenerateQuote is not matched yet and no GenerateQuote comes after a SendQuote by prior(GenerateQuote, SendQuote)
  .   UseRemoteStock fails the branch of UseRemoteStock, GenerateInvoice: UseRemoteStock is not matched yet and no UseRemoteStock comes after a UseRemoteStock by at_most_once(UseRemoteStock)
  .   GenerateInvoice fails the branch of UseRemoteStock, GenerateInvoice: UseRemoteStock is not matched yet and no UseRemoteStock comes after a GenerateInvoice by prior(UseRemoteStock, GenerateInvoice)
  .   GenerateInvoice fails the branch of UseRemoteStock, GenerateInvoice: GenerateInvoice is not matched yet and no GenerateInvoice comes after a GenerateInvoice by at_most_once(GenerateInvoice)
  . events to look at: RejectOrder, OrderFromSupplier, GenerateQuote, SendQuote, UseLocalStock, UseRemoteStock, GenerateInvoice, FinishOrder, CancelOrder
  . not checked: constraints on ReceiveOrder, CheckCredit, CheckInventory, SendInvoice, ConfirmOrder, ReceivePayment, AllocateCarrier, PackOrder, PrintLabel, NotifyCustomer, AuditOrder, ReviewOrder, which the search does not look at; OPTIONS (reasoning 'exact') does
  . not checked: what REQUIRE and HORN need, and what comes after a silence longer than the window, because a trace is forgotten then
  . skip-till-any-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds
  . events: a match lies within 1 day; ≤ rate × (1 day + 2 seconds)
    Select kind IN ('CancelOrder', 'CheckInventory', 'FinishOrder', 'GenerateInvoice', 'GenerateQuote', 'OrderFromSupplier', 'RejectOrder', 'SendQuote', 'UseLocalStock', 'UseRemoteStock')  Catalyst
      Scan step  Catalyst

query odd
  PatternMatch OR(SEQ(UseLocalStock, UseRemoteStock u), SEQ(SendQuote, CancelOrder)) by order_id [within 1 day, until RejectOrder or FinishOrder or CancelOrder]  round 1 by order_id
  . automaton of alternative 0: 0 -UseLocalStock-> 1 -UseRemoteStock u-> 2 match
  . automaton of alternative 1: 0 -SendQuote-> 1 -CancelOrder-> 2 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . constraints; an event that breaks them is set aside with the reason
  . leaves: UseLocalStock, UseRemoteStock after UseLocalStock, SendQuote, CancelOrder after SendQuote
  . branches (mask: 1 alternatives alive at the start):
  .   the branch of UseLocalStock, UseRemoteStock
  .   the branch of SendQuote, CancelOrder
  . verdict: can match, except some alternatives
  .   never: UseLocalStock and UseRemoteStock never occur together by exclusive(UseLocalStock, UseRemoteStock)
  . fail at once:
  .   RejectOrder fails the branch of SendQuote, CancelOrder: RejectOrder and SendQuote never occur together by exclusive(RejectOrder, SendQuote)
  .   FinishOrder fails the branch of SendQuote, CancelOrder: FinishOrder and CancelOrder never occur together by exclusive(FinishOrder, CancelOrder)
  . fail while something is unmatched:
  .   RejectOrder fails the branch of UseLocalStock, UseRemoteStock: UseLocalStock is not matched yet and no UseLocalStock comes after a RejectOrder by terminal(RejectOrder)
  .   UseLocalStock fails the branch of UseLocalStock, UseRemoteStock: UseLocalStock is not matched yet and no UseLocalStock comes after a UseLocalStock by at_most_once(UseLocalStock)
  .   GenerateInvoice fails the branch of UseLocalStock, UseRemoteStock: UseLocalStock is not matched yet and no UseLocalStock comes after a GenerateInvoice by prior(UseLocalStock, GenerateInvoice)
  .   RejectOrder fails the branch of UseLocalStock, UseRemoteStock: UseRemoteStock is not matched yet and no UseRemoteStock comes after a RejectOrder by terminal(RejectOrder)
  .   UseRemoteStock fails the branch of UseLocalStock, UseRemoteStock: UseRemoteStock is not matched yet and no UseRemoteStock comes after a UseRemoteStock by at_most_once(UseRemoteStock)
  .   GenerateInvoice fails the branch of UseLocalStock, UseRemoteStock: UseRemoteStock is not matched yet and no UseRemoteStock comes after a GenerateInvoice by prior(UseRemoteStock, GenerateInvoice)
  .   SendQuote fails the branch of SendQuote, CancelOrder: SendQuote is not matched yet and no SendQuote comes after a SendQuote by at_most_once(SendQuote)
  .   CancelOrder fails the branch of SendQuote, CancelOrder: CancelOrder is not matched yet and no CancelOrder comes after a CancelOrder by terminal(CancelOrder)
  . events to look at: RejectOrder, SendQuote, UseLocalStock, UseRemoteStock, GenerateInvoice, FinishOrder, CancelOrder
  . note: some alternatives of OR(SEQ(UseLocalStock, UseRemoteStock u), SEQ(SendQuote, CancelOrder)) can never match: UseLocalStock and UseRemoteStock never occur together by exclusive(UseLocalStock, UseRemoteStock)
  . not checked: constraints on ReceiveOrder, CheckCredit, OrderFromSupplier, GenerateQuote, CheckInventory, SendInvoice, ConfirmOrder, ReceivePayment, AllocateCarrier, PackOrder, PrintLabel, NotifyCustomer, AuditOrder, ReviewOrder, which the search does not look at; OPTIONS (reasoning 'exact') does
  . not checked: what REQUIRE and HORN need, and what comes after a silence longer than the window, because a trace is forgotten then
  . skip-till-any-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds
  . events: a match lies within 1 day; ≤ rate × (1 day + 2 seconds)
    Select kind IN ('CancelOrder', 'CheckInventory', 'FinishOrder', 'GenerateInvoice', 'GenerateQuote', 'OrderFromSupplier', 'RejectOrder', 'SendQuote', 'UseLocalStock', 'UseRemoteStock')  Catalyst
      Scan step  Catalyst

query plain
  PatternMatch SEQ(UseLocalStock, UseRemoteStock) by order_id [within 1 day]  round 1 by order_id
  . automaton: 0 -UseLocalStock-> 1 -UseRemoteStock-> 2 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . skip-till-any-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds
  . events: a match lies within 1 day; ≤ rate × (1 day + 2 seconds)
    Select kind IN ('CancelOrder', 'CheckInventory', 'FinishOrder', 'GenerateInvoice', 'GenerateQuote', 'OrderFromSupplier', 'RejectOrder', 'SendQuote', 'UseLocalStock', 'UseRemoteStock')  Catalyst
      Scan step                                                               Catalyst

sources, as Catalyst reads them
  step (feed) -> round 1 by order_id
  . crosses: kind, order_id, price, ts
  . where: (`kind` IN ('CancelOrder', 'CheckInventory', 'FinishOrder', 'GenerateInvoice', 'GenerateQuote', 'OrderFromSupplier', 'RejectOrder', 'SendQuote', 'UseLocalStock', 'UseRemoteStock'))
