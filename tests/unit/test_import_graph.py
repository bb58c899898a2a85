"""No module imports itself through others: by imports at the top, inside functions, or for type checking only."""

import grimp


def test_no_circles_between_modules() -> None:
    """Beyond the contract in pyproject.toml, which does not see what a package itself (`__init__`) imports."""
    graph = grimp.build_graph("dragoman", cache_dir=None)
    circles = [
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if graph.direct_import_exists(importer=imported, imported=importer)
        or graph.find_shortest_chain(importer=imported, imported=importer) is not None
    ]
    assert sorted(circles) == []
