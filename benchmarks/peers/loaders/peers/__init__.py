"""A module per loader: CASES maps a case to a function (folder, batch, **setting) that gives a
callable; each call of that is one epoch, an iterator over batches. SETTINGS lists what is tried."""
