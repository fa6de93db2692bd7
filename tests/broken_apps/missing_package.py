import headrace as hr
import pandsa_of_nobody as pd

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")
