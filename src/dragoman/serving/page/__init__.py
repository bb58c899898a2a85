"""The page of the server: text is translated as it is typed. It loads nothing from other servers."""

from dragoman.serving.page.static_files import routes as routes
