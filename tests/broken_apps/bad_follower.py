import headrace as hr

app = hr.App("shop")
orders = app.source("orders", schema="id string")
cards = app.table("cards", schema="id string", key="id")

app.follow(cards, hr.webhook("https://example.com/cards"))
app.follow("orders", hr.webhook("https://example.com/orders"))
app.follow(orders, hr.webhook("http://10.0.0.7/orders"))
app.follow(orders, "https://example.com/orders")
