"""Hosts the kernel under a virtual clock that only prices drive: how would a strategy serve these queries under this load?"""
