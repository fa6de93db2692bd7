import headrace as hr

app = hr.App("payments")


@app.stream
def transactions(transactions):
    return transactions.dropDuplicates(["id"])
