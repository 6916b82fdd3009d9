"""Which SQL functions a stream may use, by name as Spark spells them.

A replica must compute the same tuples as its peers, whatever the batches and the order of arrival were. So functions
that ask the clock, a random generator or the session are refused, and aggregates are an allow-list: those whose result
depends on the multiset of their inputs only and that Spark can keep for a stream.
"""

from __future__ import annotations

from typing import Final

AGGREGATES: Final = frozenset(
    """any avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop covar_samp every kurtosis max mean
    min skewness some std stddev stddev_pop stddev_samp sum var_pop var_samp variance""".split()
)

NON_DETERMINISTIC: Final = frozenset(
    """rand randn random randstr uniform uuid shuffle now curdate current_date current_time current_timestamp localtime
    localtimestamp current_timezone current_user session_user user current_catalog current_database current_schema
    monotonically_increasing_id spark_partition_id input_file_name input_file_block_start input_file_block_length
    reflect java_method try_reflect version aes_encrypt""".split()
)

WITHOUT_PARENTHESES: Final = frozenset(
    "current_date current_time current_timestamp current_user localtime localtimestamp session_user".split()
)
"""Functions that may be called without parentheses."""

ORDER_DEPENDENT: Final = frozenset(
    """first first_value last last_value any_value collect_list collect_set array_agg mode max_by min_by listagg
    string_agg percentile_approx approx_percentile approx_count_distinct approx_top_k count_min_sketch histogram_numeric
    hll_sketch_agg hll_union_agg theta_sketch_agg kll_sketch_agg_bigint kll_sketch_agg_double""".split()
)

OTHER_AGGREGATES: Final = frozenset(
    """median percentile percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy try_sum try_avg grouping grouping_id bitmap_construct_agg bitmap_or_agg
    bitmap_and_agg product""".split()
)

GENERATORS: Final = frozenset(
    """explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer""".split()
)

WINDOW_FUNCTIONS: Final = frozenset(
    """row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value window session_window
    window_time""".split()
)

_ALLOWED: Final = f"Use one of {', '.join(sorted(AGGREGATES))}."


def variation(name: str, *, arguments: bool) -> str | None:
    """Why two runs on the same tuples need not agree on what this function gives; None where they do."""
    if name in NON_DETERMINISTIC or (name == "unix_timestamp" and not arguments):
        return "would give a different value on every replica"
    if name in ORDER_DEPENDENT:
        return "depends on the order in which tuples arrive, or is approximate"
    return None


def refusal(name: str, *, aggregates: bool, arguments: bool) -> tuple[str, str] | None:
    """Why this function may not be called here, and what to do; None where it may."""
    if (why := variation(name, arguments=arguments)) is not None:
        if name in ORDER_DEPENDENT:
            return why, _ALLOWED if aggregates else ""
        return why, "Read _stime, or send the value as a column."
    if name in GENERATORS:
        return "makes several tuples from one", "Split such values before they are sent."
    if name in WINDOW_FUNCTIONS:
        return "is a window function", "Windows are a parameter of an aggregate box."
    if name in OTHER_AGGREGATES and aggregates:
        return "is not among the aggregates that a stream can keep exactly", _ALLOWED
    if name in AGGREGATES | OTHER_AGGREGATES and not aggregates:
        return "is an aggregate, which needs a window", "Use an aggregate box."
    return None
