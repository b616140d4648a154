"""Queueing model of continuous queries [chakravarthy2009]: are its latencies and queues those of the system it describes?"""
