import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id strng", event_time="at")
app.source("refunds", schema="id string, at timestamp", delay="1 minute")


@app.view(key="card")
def totals(transactions, refnds):
    return transactions.join(refnds, "id")


raise RuntimeError("and the end was not reached")
