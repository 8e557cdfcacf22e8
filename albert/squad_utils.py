"""The reference's module of functions for SQuAD; its names are from `reference_api`."""

from albert.reference_api.squad_models import (  # noqa: F401
    FeatureWriter,
    InputFeatures,
    convert_examples_to_features,
    create_v1_model,
    create_v2_model,
    input_fn_builder,
    v1_model_fn_builder,
    v2_model_fn_builder,
)
from albert.reference_api.squad_predictions import (  # noqa: F401
    RawResult,
    RawResultV2,
    accumulate_predictions_v1,
    accumulate_predictions_v2,
    apply_no_ans_threshold,
    evaluate_v1,
    evaluate_v2,
    find_all_best_thresh,
    find_best_thresh,
    get_raw_scores,
    get_tokens,
    make_eval_dict,
    make_qid_to_has_ans,
    merge_eval,
    normalize_answer_v2,
    write_predictions_v1,
    write_predictions_v2,
)
from albert.tasks.squad.feature_files import read_squad_examples  # noqa: F401
from albert.tasks.squad.features import SquadExample  # noqa: F401
from albert.tasks.squad.scoring import (  # noqa: F401
    compute_exact,
    compute_f1,
    exact_match_score,
    f1_score,
    metric_max_over_ground_truths,
    normalize_answer_v1,
)
