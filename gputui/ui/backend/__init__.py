"""Everything of gputui that relies on the inside of Textual, and the first frame, which is drawn without it.

`terminal_app` and `terminal` replace Textual's application and driver, `screens` its screen: they send few bytes
(`screen_diff`, `pen`), restore the terminal, and take keys one by one (`typed_ahead`). `private_names` lists what of
Textual's own they touch. `first_frame` is drawn before Textual is imported.
"""
