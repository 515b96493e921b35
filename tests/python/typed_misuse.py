"""Uses that a type checker must refuse: each line marked so."""

import forebay as fb

fb.Loader("images", batch="3")  # wrong
fb.Loader("images", batch_size="3")  # wrong
loader = fb.Loader("images", ops=[3])  # wrong
loader.state()  # wrong
length: str = len(loader)  # wrong
fb.mark.step(loader)  # wrong
fb.python(3)  # wrong
fb.no_such_op()  # wrong
