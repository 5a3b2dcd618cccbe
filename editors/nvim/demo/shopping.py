"""A shopping list. The agent gives every function a docstring and a type, from top to bottom.

Meanwhile, type what you like, here or further down: it waits for no one, and overwrites nothing.
`u` takes back its edits one at a time, apart from yours. `:Abreast stop` ends it.
"""


def total(prices):
    return sum(prices)


def cheapest(prices):
    return min(prices)


def most_expensive(prices):
    return max(prices)


def average(prices):
    return total(prices) / len(prices)


def with_tax(prices, rate):
    return [price * (1 + rate) for price in prices]


def within(prices, budget):
    return total(prices) <= budget


def affordable(prices, budget):
    return [price for price in prices if price <= budget]


def rounded(prices):
    return [round(price, 2) for price in prices]
