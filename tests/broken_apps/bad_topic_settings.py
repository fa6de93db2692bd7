import headrace as hr

app = hr.App("payments")
app.source(
    "transactions",
    schema="id string, amount double",
    topic="payments/transactions",
    partitions=0,
    key=[],
)
