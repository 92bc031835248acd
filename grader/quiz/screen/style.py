"""How the screens look. What colours say is always said in words or signs too."""

CSS = """
Screen { background: $background; }
.bar { height: 1; padding: 0 1; background: $panel; text-style: bold; }
.keys { height: 1; padding: 0 1; color: $text-muted; }
.status { height: auto; max-height: 4; padding: 0 1; }
.page { height: 1fr; padding: 0 1; }
Markdown { background: transparent; margin: 0; padding: 0 1; }
MarkdownFence { margin: 0 0 1 0; max-height: 999; }

#verdict { height: auto; padding: 0 2; margin: 0 0 1 0; text-style: bold; display: none; }
#verdict.shown { display: block; }
#answer { display: none; border-top: solid $primary; margin: 0; }
#answer.shown { display: block; }
#typed { margin: 0 1; display: none; }
#typed.shown { display: block; }
#box { height: auto; padding: 0 1; }
ItemsBox { height: auto; padding: 0 1; margin: 0 0 1 0; }
ItemsBox:focus { background: $boost; }
#ratings { height: 2; display: none; }
#ratings.shown { display: block; }
Rating { width: 1fr; height: 2; text-align: center; background: $boost; margin: 0 1; }
Rating.suggested { text-style: bold reverse; }
Rating:hover { background: $primary; }

TabbedContent { height: 1fr; }
TickList { height: 1fr; border: none; }
TabPane { padding: 0; }
#counts { height: auto; padding: 0 1; }

ModalScreen { align: center middle; }
#help { width: 64; max-width: 100%; height: auto; max-height: 100%; border: solid $primary; padding: 0 1;
  background: $panel; }
"""
