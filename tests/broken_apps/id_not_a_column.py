import headrace as hr

app = hr.App("payments")
app.stream(
    "transactions",
    schema="transaction_id string, amount double",
    id="transactionId",
)
