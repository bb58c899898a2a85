"""No import cycles: neither by top-level imports, nor by imports in functions or for type checking only."""

import grimp


def test_no_import_cycles_between_modules() -> None:
    """This covers imports in `__init__` modules, which the contract in pyproject.toml does not check."""
    graph = grimp.build_graph("dragoman", cache_dir=None)
    cycles = [
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if graph.direct_import_exists(importer=imported, imported=importer)
        or graph.find_shortest_chain(importer=imported, imported=importer) is not None
    ]
    assert sorted(cycles) == []
