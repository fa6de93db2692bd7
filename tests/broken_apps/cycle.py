import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")


@app.stream
def scored(transactions, flagged):
    return transactions.join(flagged, "id")


@app.stream(topic="flags")
def flagged(scored):
    return scored.where("score > 9")
