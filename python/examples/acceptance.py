# %% [markdown]
# How far are drafts right? Acceptance over the positions of a window, for any pair of models:
#
#     python acceptance.py                                            # the demo pair
#     python acceptance.py HuggingFaceTB/SmolLM2-360M HuggingFaceTB/SmolLM2-135M
#
# The chance that a window's i-th token is accepted falls with i, as all before it must be, too:
# for independent acceptances it would be a^i (Leviathan et al. 2022, section 3.1).

# %%
import sys

import paceline

WINDOW = 6
PROMPTS = ["def fibonacci(n):", "import os\n", "class Stack:\n", "for i in range(10):\n"]
models = dict(zip(("model", "draft"), sys.argv[1:]))
engine = paceline.Engine(**models)

# %% All prompts at once, as one batch.
streams = [
    engine.stream(prompt, max_tokens=96, seed=i, speculation="sync", window=WINDOW)
    for i, prompt in enumerate(PROMPTS)
]
for stream in streams:
    for _ in stream:
        pass

# %% What was counted.
metrics = engine.metrics()
reached = [count / metrics.windows for count in metrics.accepted_by_position[:WINDOW]]
rate = sum(s.completion.speculation.accepted for s in streams) / max(
    1, sum(s.completion.speculation.judged for s in streams)
)
independent = [rate ** (i + 1) for i in range(len(reached))]
engine.close()

# %% Drawn, or printed where there is no matplotlib.
title = f"{models.get('model', 'the demo pair')}: acceptance rate {rate:.2f}"
try:
    import matplotlib.pyplot as plot
except ImportError:
    print(title)
    for i, (share, expected) in enumerate(zip(reached, independent), 1):
        print(f"position {i}  {share:5.2f}  {'#' * round(40 * share):40}  a^{i} = {expected:.2f}")
else:
    positions = range(1, len(reached) + 1)
    plot.bar(positions, reached, label="measured")
    plot.plot(positions, independent, "k.--", label="independent: $a^i$")
    plot.xlabel("position in the window")
    plot.ylabel("share of windows accepted to here")
    plot.title(title)
    plot.legend()
    plot.savefig("acceptance.png", dpi=150)
    print(f"{title}: see acceptance.png")
