"""Shows scripts, frames, forms and styles in outputs and Markdown, which the teacher will look at when signed in.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% playground
from IPython.display import HTML, SVG, IFrame, Javascript, display

print("\x1b]0;owned\x07\x1b[2J<script>window.rankup_attack = 1</script>")
display(
    HTML("<script>window.rankup_attack = 1</script><img src=x onerror='window.rankup_attack=1'>"),
    HTML("<style>body{display:none}</style><form action='http://192.0.2.1'><input autofocus onfocus='rankup_attack=1'></form>"),
    HTML("<iframe src='javascript:window.rankup_attack=1'></iframe><a href='javascript:window.rankup_attack=1'>x</a>"),
    Javascript("window.rankup_attack = 1"),
    IFrame("http://192.0.2.1", 1, 1),
    SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.rankup_attack=1'><script>rankup_attack=1</script></svg>"),
)
raise type("<script>window.rankup_attack=1</script>", (Exception,), {})("</pre><script>window.rankup_attack=1</script>")

# %% markdown
<script>window.rankup_attack = 1</script> <img src=x onerror="window.rankup_attack=1">

[click](javascript:window.rankup_attack=1) ![](http://192.0.2.1/seen.png) $\href{javascript:window.rankup_attack=1}{x}$

<details open ontoggle="window.rankup_attack=1"><svg><use href="data:image/svg+xml,<svg id='x' onload='rankup_attack=1'/>#x"/></svg>
