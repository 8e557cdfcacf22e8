"""The list of operations in bfloat16: what the environment may say, and files that are wrong."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from runtime.bf16 import configuration
from runtime.errors import UserError
from tests.helpers.forking import ROOT

SHIPPED = [ROOT / "bf16_config" / name for name in ("albert.json", "bert.json")]
MATRIX_PRODUCTS = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"}


@pytest.fixture
def write(tmp_path):
    """Writes a configuration file, of JSON text or of what is to become JSON."""

    def write(content):
        path = tmp_path / "lists.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that are logged."""
    logged = []
    monkeypatch.setattr(tf.logging, "warning", lambda text, *values: logged.append(text % values))
    return logged


class TestValue:
    @pytest.mark.parametrize("value", [None, "", "0", "false", "False"])
    def test_none(self, value):
        assert configuration.load(value) is None

    @pytest.mark.parametrize("value", ["1", "true", "True", "full"])
    def test_the_shipped_list(self, value):
        assert configuration.load(value) == configuration.load(str(SHIPPED[0]))

    def test_basic(self):
        config = configuration.load("basic")
        assert config.allowlist == MATRIX_PRODUCTS
        assert not config.conditional_list and not config.strict_conditional_list

    def test_path(self, write, warnings):
        path = write(
            {
                "allowlist": ["MatMul"],
                "conditional_list": ["Identity", "Reshape"],
                "strict_conditional_list": ["AddN"],
                "non_convertible_exceptions": [["a/.*", ""]],
                "convertible_exceptions": [["b[0-9]", "Mul"]],
            }
        )
        config = configuration.load(path)
        assert config.source == path
        assert config.allowlist == {"MatMul"}
        assert config.conditional_list == {"Identity", "Reshape"}
        assert config.strict_conditional_list == {"AddN"}
        (kept,) = config.non_convertible_exceptions
        (forced,) = config.convertible_exceptions
        assert kept.matches("a/b", "Sub") and not kept.matches("x/a/b", "Sub")
        assert forced.matches("b1", "Mul")
        assert not forced.matches("b1", "Sub") and not forced.matches("b12", "Mul")
        assert not warnings

    def test_digest_is_of_the_content(self, write):
        def digest(**content):
            return configuration.load(write(content)).digest()

        one = digest(allowlist=["MatMul", "Mul"])
        assert (
            configuration.from_dict({"allowlist": ["Mul", "MatMul"]}, "elsewhere").digest() == one
        )
        others = [
            digest(allowlist=["MatMul"]),
            digest(conditional_list=["MatMul", "Mul"]),
            digest(allowlist=["MatMul", "Mul"], convertible_exceptions=[["a", ""]]),
        ]
        assert one not in others and len(set(others)) == 3

    def test_lists_may_be_left_out(self, write):
        assert configuration.load(write({})).allowlist == frozenset()


class TestEnvironment:
    def test_names_the_configuration(self, monkeypatch, warnings):
        monkeypatch.setenv("TF_BF16_CONVERSION", "basic")
        assert configuration.from_environment().source == "basic"
        monkeypatch.delenv("TF_BF16_CONVERSION")
        assert configuration.from_environment() is None
        assert not warnings

    def test_deprecated_variable(self, monkeypatch, warnings):
        monkeypatch.delenv("TF_BF16_CONVERSION", raising=False)
        monkeypatch.setenv("TF_ENABLE_BF16_CONVERSION", "bert")
        assert configuration.from_environment() is None
        configuration.from_environment()
        (warning,) = warnings
        assert "TF_ENABLE_BF16_CONVERSION is deprecated" in warning
        assert "TF_BF16_CONVERSION=1" in warning


class TestFaults:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"allowlist": [\n"MatMul" 1]}', "is not JSON: .*: line 2 column 10"),
            ("[]", "must be a JSON object with the keys allowlist"),
            ({"allow_list": []}, "unknown key 'allow_list'; did you mean 'allowlist'"),
            ('{"allowlist": [], "allowlist": ["Mul"]}', "'allowlist' is there twice"),
            ({"allowlist": "MatMul"}, "allowlist must be a list of op types"),
            ({"conditional_list": [1]}, "conditional_list must be a list of op types"),
            (
                {"allowlist": ["Mul"], "strict_conditional_list": ["Add", "Mul"]},
                "Mul is on allowlist and on strict_conditional_list",
            ),
            ({"convertible_exceptions": {}}, "convertible_exceptions must be a list of pairs"),
            (
                {"non_convertible_exceptions": [["a", ""], ["b"]]},
                r'non_convertible_exceptions, entry 2: \["b"\] is not a pair',
            ),
            (
                {"convertible_exceptions": [["lay(er", ""]]},
                r"convertible_exceptions, entry 1: 'lay\(er' is not a regular expression: missing",
            ),
            (
                {"convertible_exceptions": [["a", ""], ["b{9,99999999999}", ""]]},
                r"convertible_exceptions, entry 2: 'b\{9,99999999999\}' is not a regular expr",
            ),
            (
                {"convertible_exceptions": [["(" * 9999 + ")" * 9999, ""]]},
                r"convertible_exceptions, entry 1: '\(\(.* is not a regular expression: ",
            ),
            ("[" * 99999, "nested too deeply"),
            ('{"allowlist": [' + "9" * 9999 + "]}", "is not JSON: Exceeds the limit"),
        ],
    )
    def test_is_one_line_that_names_file_and_place(self, write, content, message):
        path = write(content)
        with pytest.raises(UserError, match=message) as error:
            configuration.load(path)
        assert path in str(error.value) and "\n" not in str(error.value)

    def test_path_that_does_not_exist(self, tmp_path):
        path = str(tmp_path / "none.json")
        with pytest.raises(UserError, match="TF_BF16_CONVERSION: .*none.json cannot be read: No "):
            configuration.load(path)
        with pytest.raises(UserError, match="is a folder, not a file"):
            configuration.load(str(tmp_path))

    def test_file_that_is_no_text(self, tmp_path):
        (tmp_path / "lists.json").write_bytes(b"\xff\xfe{")
        with pytest.raises(UserError, match="not UTF-8"):
            configuration.load(str(tmp_path / "lists.json"))

    def test_op_types_that_nobody_knows(self, write, warnings):
        configuration.load(
            write(
                {
                    "allowlist": ["Matmul", "HabanaGelu", "HorovodAllreduce", "_ScopedAllocator"],
                    "convertible_exceptions": [["x", "AddV3"], ["y", ""]],
                }
            )
        )
        assert [warning.split(": ", 1)[1] for warning in warnings] == [
            "TensorFlow has no op type 'AddV3'; did you mean 'AddV2'?",
            "TensorFlow has no op type 'Matmul'; did you mean 'MatMul'?",
        ]

    def test_op_types_of_the_bridge_and_horovod(self, write, warnings):
        """They are not registered where their libraries are not loaded."""
        known = ["HabanaFusedBatchNormV3", "HpuCollectiveReduce", "_FusedMatMul"]
        wrong = ["HabanaGelo", "HorovodAllReduce", "_ScopedAlocator"]
        configuration.load(write({"allowlist": known + wrong}))
        assert [warning.split(": ", 1)[1] for warning in warnings] == [
            "TensorFlow has no op type 'HabanaGelo'; did you mean 'HabanaGelu'?",
            "TensorFlow has no op type 'HorovodAllReduce'; did you mean 'HorovodAllreduce'?",
            "TensorFlow has no op type '_ScopedAlocator'; did you mean '_ScopedAllocator'?",
        ]


class TestShippedLists:
    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
    def test_has_what_every_list_needs(self, path, warnings):
        config = configuration.load(str(path))
        assert not warnings
        assert config.allowlist >= {*MATRIX_PRODUCTS, "HabanaDropout", "HabanaLayerNormV2"}
        (kept, *_), (forced, *_) = config.non_convertible_exceptions, config.convertible_exceptions
        assert kept.matches("scope/KEEP_FP32_PRECISION/x", "MatMul")
        assert forced.matches("scope/FORCE_BF16_PRECISION_x", "Sub")

    def test_1_means_the_list_of_the_model(self, monkeypatch):
        monkeypatch.setenv(configuration.VARIABLE, "1")
        albert, bert = SHIPPED
        assert configuration.from_environment().source == str(albert)
        assert configuration.from_environment(configuration.SHIPPED_FOR_BERT).source == str(bert)

    def test_gradients_are_sent_in_bfloat16_by_bert_json_only(self):
        """On the card; loss and norm, which are sent by themselves, never are."""
        albert, bert = (configuration.load(str(path)) for path in SHIPPED)
        sending = {"HorovodAllreduce", "_ScopedAllocator", "_ScopedAllocatorConcat"}
        assert not sending & albert.allowlist and sending < bert.allowlist

        def is_kept(config, name):
            kept = config.non_convertible_exceptions
            return any(pattern.matches(name, "HorovodAllreduce") for pattern in kept)

        gradients, facts = "mean_over_workers/Sum_and_24_0", "mean_over_workers_1/stack_and_0_0"
        assert is_kept(albert, gradients) and is_kept(albert, facts)
        assert not is_kept(bert, gradients) and is_kept(bert, facts)

    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
    def test_what_must_be_precise_is_on_no_list(self, path):
        config = configuration.load(str(path))
        listed = config.allowlist | config.conditional_list | config.strict_conditional_list
        # Loss, moments of the layer norm, global norm, optimizer; TensorFlow's BiasAddGrad for CPU
        # adds up in bfloat16, which stops at 256 times the addend.
        assert not listed & {
            "SparseSoftmaxCrossEntropyWithLogits",
            "LogSoftmax",
            "Mean",
            "Rsqrt",
            "L2Loss",
            "Sqrt",
            "Mul",
            "RealDiv",
            "HorovodBroadcast",
            "BiasAddGrad",
        }


def test_is_found_from_any_folder(tmp_path):
    """The shipped lists lie beside the code, not in the working folder."""
    code = "from runtime.bf16 import configuration; print(configuration.load('1').source)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.stdout.strip() == str(SHIPPED[0]), result.stderr
