import headrace as hr

app = hr.App("payments")
app.source(
    "transactions",
    schema="transaction_id string, amount double",
    id="transactionId",
)
