"""The list of operations in bfloat16: values of the environment variable, and invalid files."""

import logging

import pytest

from albert.core.errors import FlagError, UserError
from albert.precision import configuration
from tests.helpers.forking import ROOT

SHIPPED = [ROOT / "bf16_config" / name for name in ("albert.json", "bert.json")]
LISTS = ("allowlist", "conditional_list", "strict_conditional_list")
CONVERTIBLE, KEPT = "convertible_exceptions", "non_convertible_exceptions"
MATRIX_PRODUCTS = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"}


def assert_named_nodes_are_excepted(config):
    """Checks the nodes by the names that Habana documents."""
    (kept, *_), (forced, *_) = config.non_convertible_exceptions, config.convertible_exceptions
    assert kept.matches("scope/KEEP_FP32_PRECISION/x", "MatMul")
    assert forced.matches("scope/FORCE_BF16_PRECISION_x", "Sub")


class TestPrecision:
    @pytest.mark.parametrize(
        ("precision", "value", "source", "dtype"),
        [
            (None, None, None, None),
            (None, "1", str(SHIPPED[1]), "bfloat16"),
            ("float32", "0", None, None),
            ("bfloat16", None, str(SHIPPED[1]), "bfloat16"),
            ("bfloat16", "false", str(SHIPPED[1]), "bfloat16"),
            ("bfloat16", "basic", "basic", "bfloat16"),
            ("float16", None, str(SHIPPED[1]), "float16"),
        ],
    )
    def test_flag_or_variable_selects_a_list(self, precision, value, source, dtype, monkeypatch):
        """Without a value, the variable leaves the choice to the flag and the model."""
        monkeypatch.delenv(configuration.VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(configuration.VARIABLE, value)
        config = configuration.chosen(precision, configuration.SHIPPED_FOR_BERT)
        assert (config and config.source, config and config.dtype.name) == (source, dtype)

    @pytest.mark.parametrize("precision", ["float32", "float16"])
    def test_a_contradiction_is_an_error(self, precision, monkeypatch):
        monkeypatch.setenv(configuration.VARIABLE, "basic")
        with pytest.raises(FlagError, match=f"^--precision={precision} contradicts .*=basic"):
            configuration.chosen(precision)

    def test_float16_is_for_the_encoder_only(self):
        """The heads' scores of padding are below its smallest number."""
        (*_, kept) = configuration.chosen("float16").non_convertible_exceptions
        encoder = ("bert/encoder/layer_0/add", "gradients/bert/encoder/MatMul", "gradients/AddN_2")
        others = ("MatMul", "add", "start_logits/add", "gradients/start_logits/AddN", "cond/bert/x")
        assert [kept.matches(name, "AddV2") for name in encoder] == [False] * 3
        assert [kept.matches(name, "AddV2") for name in others] == [True] * 5

    def test_the_deprecated_variable_warns_once(self, monkeypatch, log):
        monkeypatch.delenv(configuration.VARIABLE, raising=False)
        monkeypatch.setenv("TF_ENABLE_BF16_CONVERSION", "bert")
        assert configuration.chosen(None) is configuration.chosen(None) is None
        (warning,) = log(logging.WARNING)
        assert "TF_ENABLE_BF16_CONVERSION is deprecated" in warning


class TestValue:
    @pytest.mark.parametrize(
        ("values", "source"),
        [
            ((None, "", "0", "false", "False"), None),
            (("1", "true", "True", "full", "bf16_config/albert.json"), str(SHIPPED[0])),
            (("basic", "Basic"), "basic"),
        ],
    )
    def test_words_select_a_list_or_none(self, values, source, tmp_path, monkeypatch):
        """The shipped list is found next to the code, not in the working folder."""
        monkeypatch.chdir(tmp_path)
        assert {getattr(configuration.load(value), "source", None) for value in values} == {source}

    def test_basic_lists_only_matrix_products(self):
        config = configuration.load("basic")
        assert config.allowlist == MATRIX_PRODUCTS
        assert not config.conditional_list and not config.strict_conditional_list
        assert_named_nodes_are_excepted(config)

    def test_a_path_is_read_as_written(self, write, log):
        lists = {"allowlist": ["MatMul"], "conditional_list": ["Identity", "Reshape"]}
        lists |= {"strict_conditional_list": ["AddN"]}
        path = write({**lists, KEPT: [["a/.*", ""]]})
        config = configuration.load(path)
        assert config.source == path
        assert {name: getattr(config, name) for name in lists} == {
            name: set(types) for name, types in lists.items()
        }
        assert [kept.matches("a/b", "Sub") for kept in config.non_convertible_exceptions] == [True]
        assert configuration.from_dict({}, "test").allowlist == frozenset()
        assert not log(logging.WARNING)

    def test_the_digest_depends_only_on_the_content(self):
        def digest(**content):
            return configuration.from_dict(content, str(content)).digest()

        contents = [{}, {"allowlist": ["MatMul"]}, *({key: ["Mul", "MatMul"]} for key in LISTS)]
        contents += [{key: [["a", ""]]} for key in (CONVERTIBLE, KEPT)]
        assert len({digest(**content) for content in contents}) == len(contents)
        assert digest(allowlist=["Mul", "MatMul"]) == digest(allowlist=["MatMul", "Mul"])


class TestFaults:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"allowlist": [\n"MatMul" 1]}', "is not JSON: .*: line 2 column 10"),
            ("[]", "must be a JSON object with the keys allowlist"),
            ({"allow_list": []}, "unknown key 'allow_list'; did you mean allowlist?"),
            ('{"allowlist": [], "allowlist": ["Mul"]}', "duplicate key 'allowlist'"),
            ({"allowlist": "MatMul"}, "allowlist must be a list of op types"),
            ({"conditional_list": [1]}, "conditional_list must be a list of op types"),
            ({LISTS[0]: ["Mul"], LISTS[2]: ["Add", "Mul"]}, f"Mul is in .* and in {LISTS[2]}"),
            ({CONVERTIBLE: {}}, rf"{CONVERTIBLE}, entry 1: {{}} is not a pair"),
            ({KEPT: [["a", ""], ["b"]]}, rf'{KEPT}, entry 2: \["b"\] is not a pair'),
            ({CONVERTIBLE: [["lay(er", ""]]}, r"entry 1: 'lay\(er' is not a regular expression: "),
            ({CONVERTIBLE: [["b{9,99999999999}", ""]]}, r"entry 1: 'b\{9.* is not a regular expr"),
        ],
    )
    def test_an_invalid_file_is_one_line_naming_file_and_place(self, write, content, message):
        path = write(content)
        with pytest.raises(UserError, match=message) as error:
            configuration.load(path)
        assert path in str(error.value) and "\n" not in str(error.value)

    def test_a_missing_path_is_an_error(self):
        message = "TF_BF16_CONVERSION=none.json is not 0, 1, full, basic or an existing JSON file"
        with pytest.raises(UserError, match=message):
            configuration.load("none.json")

    def test_unknown_op_types_warn_with_a_suggestion(self, write, log):
        """Op types of the bridge and of Horovod count as known where neither is loaded."""
        known = ["HabanaGelu", "HorovodAllreduce", "_ScopedAllocator", "HpuCollectiveReduce"]
        lists = {"allowlist": [*known, "Matmul"], CONVERTIBLE: [["x", "AddV3"], ["y", ""]]}
        configuration.load(write(lists))
        warnings = [warning.split(": ", 1)[1] for warning in log(logging.WARNING)]
        assert warnings[0].startswith("TensorFlow has no op type 'AddV3'; did you mean AddV2")
        assert warnings[1].startswith("TensorFlow has no op type 'Matmul'; did you mean MatMul")
        assert len(warnings) == 2


class TestShippedLists:
    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
    def test_lists_have_matrix_products_and_no_precise_ops(self, path, log):
        config = configuration.load(str(path))
        assert not log(logging.WARNING)
        assert config.allowlist >= {*MATRIX_PRODUCTS, "HabanaDropout", "HabanaLayerNormV2"}
        assert_named_nodes_are_excepted(config)
        # Loss, layer-norm moments, global norm and optimizer. TensorFlow's BiasAddGrad for CPU
        # accumulates in bfloat16, which stops at 256 times the addend.
        precise = {"SparseSoftmaxCrossEntropyWithLogits", "LogSoftmax", "Mean", "Rsqrt", "L2Loss"}
        precise |= {"Sqrt", "Mul", "RealDiv", "HorovodBroadcast", "BiasAddGrad"}
        listed = config.allowlist | config.conditional_list | config.strict_conditional_list
        assert not listed & precise

    def test_albert_json_keeps_the_products_of_scores(self):
        """Of tokens and of sentence order; what precedes them is as in the encoder."""
        kept = configuration.load(str(SHIPPED[0])).non_convertible_exceptions
        ends = ["MatMul", "MatMul_grad/MatMul", "MatMul_grad/MatMul_1", "BiasAdd"]
        for scope in ("", "cls/predictions/", "cls/seq_relationship/", "cls/predictions/dense/"):
            names = [(f"{of}{scope}{end}", end) for of in ("", "gradients/") for end in ends]
            found = {any(k.matches(name, end.split("_")[0]) for k in kept) for name, end in names}
            assert found == {"dense" not in scope}, scope

    def test_only_bert_json_sends_gradients_in_bfloat16(self):
        """On the card only; loss and norm, which are sent separately, always stay in float32."""
        albert, bert = (configuration.load(str(path)) for path in SHIPPED)
        sending = {"HorovodAllreduce", "_ScopedAllocator", "_ScopedAllocatorConcat"}
        assert not sending & albert.allowlist and sending < bert.allowlist

        def is_kept(config, name):
            kept = config.non_convertible_exceptions
            return any(pattern.matches(name, "HorovodAllreduce") for pattern in kept)

        gradients, facts = "mean_over_workers/Sum_and_24_0", "mean_over_workers_1/stack_and_0_0"
        assert is_kept(albert, gradients) and is_kept(albert, facts)
        assert not is_kept(bert, gradients) and is_kept(bert, facts)
