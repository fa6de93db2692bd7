import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")


@app.stream
def large(transactions)
    return transactions.where("amount > 100")
