import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")


@app.stream
def large(transactions, limit=100):
    return transactions.where(f"amount > {limit}")


@app.stream
def everything(*streams):
    return streams[0]
