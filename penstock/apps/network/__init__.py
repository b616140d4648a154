"""Network monitoring: traffic common to four routers, and conditions that change places when the traffic changes."""
