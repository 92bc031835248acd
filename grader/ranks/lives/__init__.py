"""Lives: processes that run a learner's program in a box, are watched at every file operation, and can be killed there.

For programs that must survive their own death: checkpoints, and jobs that restart."""

from grader.ranks.lives.director import directed
from grader.ranks.lives.life import Life, Lives, Raised

__all__ = ["Life", "Lives", "Raised", "directed"]
