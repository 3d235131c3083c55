// The forward pass of a checkpoint, in addition to its golden data (tests/golden/golden_checkpoints.cpp): files that do
// not fit config.json, formats, windows and sinks, the cache, threads.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/checkpoint_run.h"
#include "core/files/tensors/open_tensors.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"
#include "tests/support/kept_logits.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

std::vector<float> logits_of(const CheckpointModel& model, const std::vector<std::int32_t>& ids, Index sequences = 1) {
  KeptLogits watch;
  model.forward(ids, sequences, std::ssize(ids) / sequences, watch);
  return watch.all;
}

TEST(CheckpointModel, FilesThatDoNotFitNameFileAndTensor) {
  const SmallCheckpoint folder("misfit");
  const auto problem = [&] { return problem_of([&] { CheckpointModel model(folder.path()); }); };
  EXPECT_EQ(problem(), "");
  folder.write_tensors([](auto& tensors) { tensors["model.layers.1.block_sparse_moe.gate.weight"] = {5, 16}; });
  EXPECT_EQ(problem(), folder.file("model.safetensors") +
                           ": tensor 'model.layers.1.block_sparse_moe.gate.weight' is [5, 16]; config.json requires "
                           "[4, 16]");
  folder.write_tensors([](auto& tensors) { tensors.erase("model.layers.0.block_sparse_moe.experts.3.w2.weight"); });
  EXPECT_EQ(problem().substr(0, problem().find(';')),
            folder.file("model.safetensors") + ": has no tensor 'model.layers.0.block_sparse_moe.experts.3.w2.weight'");
  folder.write_tensors([](auto& tensors) { tensors["model.layers.0.self_attn.q_proj.bias"] = {16}; });
  EXPECT_EQ(problem(), folder.file("model.safetensors") +
                           ": tensor 'model.layers.0.self_attn.q_proj.bias' exists, but by 'attention_bias' of "
                           "config.json there is none");
  folder.write_tensors();
  std::ofstream(folder.file("model.safetensors.index.json"))
      << R"({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", "x": "model.safetensors"}})";
  EXPECT_EQ(problem(), folder.file("model.safetensors.index.json") +
                           ": 'model-00002-of-00002.safetensors' is a missing file of the checkpoint");
}

TEST(CheckpointModel, HostileSizesAreRefusedBeforeMemoryIsAskedFor) {
  const SmallCheckpoint folder("hostile");
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_local_experts"}) {
    folder.write_config({{key, key == std::string("num_local_experts") ? 65536 : 16777216}});
    EXPECT_NE(problem_of([&] { CheckpointModel model(folder.path()); }), "") << key;
  }
  folder.write_config({{"num_hidden_layers", 10000}});
  EXPECT_NE(problem_of([&] { CheckpointModel model(folder.path()); }).find("model.layers.2."), std::string::npos);
}

TEST(CheckpointModel, IdsBeyondTheVocabularyAreRefused) {
  const SmallCheckpoint folder("ids");
  const CheckpointModel model(folder.path());
  EXPECT_EQ(problem_of([&] { logits_of(model, {1, 40}); }), "token 1 is 40; allowed: 0 to 39");
  EXPECT_EQ(problem_of([&] { logits_of(model, {-1}); }), "token 0 is -1; allowed: 0 to 39");
}

TEST(CheckpointModel, TheSameBitsWithAnyNumberOfThreadsAndBesideOtherSequences) {
  const SmallCheckpoint folder("threads");
  const CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(150);
  set_num_threads(1);
  const std::vector<float> logits = logits_of(model, ids);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    EXPECT_EQ(logits_of(model, ids), logits) << threads;
  }
  set_num_threads(0);
}

TEST(CheckpointModel, WithACacheTokenByTokenAsInOnePass) {
  const SmallCheckpoint folder("cache");
  folder.write_config({{"sliding_window", 5}});
  const CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(20);
  const std::vector<float> at_once = logits_of(model, ids);
  KeyValueCache cache;
  KeptLogits watch;
  model.forward(std::span(ids).first(7), 1, 7, watch, &cache);
  for (std::size_t t = 7; t < ids.size(); ++t) model.forward(std::span(ids).subspan(t, 1), 1, 1, watch, &cache);
  ASSERT_EQ(watch.all.size(), at_once.size());
  for (std::size_t i = 0; i < at_once.size(); ++i) EXPECT_NEAR(watch.all[i], at_once[i], 1e-5) << i;
}

TEST(CheckpointModel, WrittenOnAsWithoutACache) {
  const SmallCheckpoint folder("write");
  const CheckpointModel model(folder.path());
  std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(9);
  const WrittenText written = continue_text(model, ids, 5);
  ASSERT_EQ(written.ids.size(), 5u);
  for (const std::int32_t id : written.ids) {
    const std::vector<float> logits = logits_of(model, ids);
    const auto last = logits.end() - SmallCheckpoint::kVocab;
    EXPECT_EQ(id, std::max_element(last, logits.end()) - last);
    ids.push_back(id);
  }
}

TEST(CheckpointModel, InBf16NearlyTheSame) {
  const SmallCheckpoint folder("bf16");
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(30);
  const std::vector<float> exact = logits_of(CheckpointModel(folder.path()), ids);
  const std::vector<float> rounded = logits_of(CheckpointModel(folder.path(), Arithmetic::bf16), ids);
  double error = 0, all = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{rounded[i]} - exact[i], 2);
    all += std::pow(double{exact[i]}, 2);
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(std::sqrt(error / all), 0.02);
}

TEST(CheckpointModel, AFileThatAnotherProgramShortensIsAnError) {
  for (const std::size_t tokens : {std::size_t{1}, std::size_t{30}}) {
    const SmallCheckpoint folder("shortened");
    const CheckpointModel model(folder.path());
    const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(tokens);
    EXPECT_EQ(logits_of(model, ids).size(), tokens * SmallCheckpoint::kVocab);
    std::filesystem::resize_file(folder.file("model.safetensors"), 0);
    const std::string problem = problem_of([&] { logits_of(model, ids); });
    EXPECT_TRUE(problem.starts_with(folder.file("model.safetensors") + ": tensor '")) << problem;
    EXPECT_TRUE(
        problem.ends_with("its file was truncated while it was open (another program wrote it); open it again"));
  }
}

TEST(StoredMatrix, ValuesAreTheFilesInEveryFormatAndPiece) {
  const SmallCheckpoint folder("formats");
  const RandomStream stream(5, "bytes");
  SafetensorsWriter writer;
  constexpr std::size_t kRows = 40, kCols = 64;
  const struct {
    const char* name;
    DType dtype;
  } formats[] = {{"f32", DType::f32},
                 {"bf16", DType::bf16},
                 {"f16", DType::f16},
                 {"fp8", DType::f8_e4m3},
                 {"e5m2", DType::f8_e5m2}};
  for (const auto& format : formats) {
    std::vector<std::byte> bytes(kRows * kCols * dtype_bits(format.dtype) / 8);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(stream.bits(i));
    writer.add(format.name, format.dtype, {kRows, kCols}, bytes);
  }
  const std::string path = folder.file("formats.safetensors");
  writer.write(path);
  const SafetensorsFile file(path);
  const auto failure = std::make_shared<ReadFailure>();
  for (const auto& format : formats) {
    const TensorView& tensor = file.at(format.name);
    const std::vector<float> want = tensor.floats();
    for (const bool transposed : {false, true}) {
      const StoredMatrix matrix(tensor, 0, transposed, failure);
      const Index first = 3, count = 17;
      std::vector<float> outputs(static_cast<std::size_t>(count * matrix.inputs()));
      matrix.read_outputs(first, count, outputs.data());
      for (Index o = 0; o < count; ++o)
        for (Index i = 0; i < matrix.inputs(); ++i) {
          const float value = transposed ? outputs[static_cast<std::size_t>(i * count + o)]
                                         : outputs[static_cast<std::size_t>(o * matrix.inputs() + i)];
          const float expected = transposed
                                     ? want[static_cast<std::size_t>(i) * kCols + static_cast<std::size_t>(first + o)]
                                     : want[static_cast<std::size_t>(first + o) * kCols + static_cast<std::size_t>(i)];
          ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected))
              << format.name << o << ' ' << i;
        }
    }
  }
  EXPECT_EQ(failure->reason(), "");
}

// Few rows are multiplied by other kernels than many.
TEST(StoredMatrix, ProductsOfFewRowsAndOfMany) {
  const SmallCheckpoint folder("products");
  const RandomStream stream(6, "products");
  constexpr Index kOutputs = 37, kInputs = 51;
  std::vector<Bf16> weights(kOutputs * kInputs);
  std::vector<float> x(9 * kInputs), bias(kOutputs);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float value = static_cast<float>(stream.normal(i));
    round_to_unit_bf16(&value, 1, &weights[i]);
  }
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.normal(1000 + i));
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  SafetensorsWriter writer;
  writer.add("w", DType::bf16, {kOutputs, kInputs}, std::as_bytes(std::span(weights)));
  writer.write(folder.file("w.safetensors"));
  const SafetensorsFile file(folder.file("w.safetensors"));
  const auto failure = std::make_shared<ReadFailure>();
  StoredLinear linear(StoredMatrix(file.at("w"), 0, false, failure));
  linear.bias = bias;
  const std::vector<float> w = file.at("w").floats();
  for (const Index rows : {1, 2, 4, 5, 9}) {
    std::vector<float> y(static_cast<std::size_t>(rows * kOutputs));
    linear.forward({x.data(), rows, kInputs}, {y.data(), rows, kOutputs});
    for (Index r = 0; r < rows; ++r)
      for (Index o = 0; o < kOutputs; ++o) {
        double want = static_cast<double>(o);
        for (Index i = 0; i < kInputs; ++i)
          want += double{x[static_cast<std::size_t>(r * kInputs + i)]} * w[static_cast<std::size_t>(o * kInputs + i)];
        EXPECT_NEAR(y[static_cast<std::size_t>(r * kOutputs + o)], want, 1e-4) << rows << ' ' << r << ' ' << o;
      }
  }
}

// FP8, MXFP8, MXFP4 and NVFP4 in all layouts of publishers (tests/data/tensors/write_codes.py).
TEST(StoredMatrix, CodesWithScalesAreTheWeightInEveryPiece) {
  const TensorFile file = open_tensors(MOESCOPE_TEST_DATA "/data/tensors/codes.safetensors");
  const auto failure = std::make_shared<ReadFailure>();
  int compared = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (!tensor.scales || tensor.shape.size() < 2) continue;
    ++compared;
    const StoredMatrix matrix(tensor, 0, false, failure);
    std::vector<float> outputs(static_cast<std::size_t>(matrix.outputs() * matrix.inputs()));
    const std::vector<float> want = tensor.floats(0, outputs.size());
    const Index half_outputs = matrix.outputs() / 2;
    matrix.read_outputs(0, half_outputs, outputs.data());
    matrix.read_outputs(half_outputs, matrix.outputs() - half_outputs, outputs.data() + half_outputs * matrix.inputs());
    EXPECT_EQ(outputs, want) << tensor.name;
    const StoredMatrix transposed(tensor, 0, true, failure);
    std::vector<float> column(static_cast<std::size_t>(transposed.inputs()));
    transposed.read_outputs(1, 1, column.data());
    for (Index r = 0; r < transposed.inputs(); ++r)
      EXPECT_EQ(column[static_cast<std::size_t>(r)], want[static_cast<std::size_t>(r * transposed.outputs() + 1)]);
  }
  EXPECT_GE(compared, 10);
  EXPECT_EQ(failure->reason(), "");
}

TEST(CheckpointRun, StepsAreBatchesOfAllTexts) {
  const SmallCheckpoint folder("run");
  const CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"one", SmallCheckpoint::some_ids(50)},
                                           {"two", SmallCheckpoint::some_ids(33)},
                                           {"one", SmallCheckpoint::some_ids(1)}};
  CheckpointRun run(model, texts, {.texts = {.length = 16}, .sequences = 4});
  // The texts have pieces in turn: three whole ones and one of two tokens of the first text, two whole ones of the
  // second. The last token of the second text is left out, because it predicts nothing.
  ASSERT_EQ(run.steps(), 2);
  EXPECT_EQ(run.tokens(), 5 * 16 + 2);
  EXPECT_EQ(run.info().domains, (std::vector<std::string>{"one", "two"}));
  std::vector<std::uint64_t> load(SmallCheckpoint::kExperts);
  std::int64_t tokens = 0;
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    const TelemetryFrame frame = run.step();
    EXPECT_EQ(frame.step, step);
    ASSERT_EQ(frame.routers.size(), SmallCheckpoint::kLayers);
    std::uint64_t slots = 0;
    for (std::size_t e = 0; e < load.size(); ++e) {
      slots += frame.routers[0].tokens_per_expert[e];
      load[e] += frame.routers[0].tokens_per_expert[e];
    }
    EXPECT_EQ(static_cast<std::int64_t>(slots), 2 * (frame.tokens - tokens));
    tokens = frame.tokens;
    EXPECT_TRUE(std::isfinite(frame.ce_loss));
    // The last step has the tables of all batches.
    ASSERT_EQ(frame.specialisation.size(), step == 1 ? SmallCheckpoint::kLayers : 0u);
    if (step == 0) continue;
    const std::vector<std::uint32_t>& by_domain = frame.specialisation[0].domain_DE;
    for (std::size_t e = 0; e < load.size(); ++e) EXPECT_EQ(by_domain[e] + by_domain[load.size() + e], load[e]);
    EXPECT_EQ(std::accumulate(by_domain.begin(), by_domain.begin() + SmallCheckpoint::kExperts, 0u), 2u * 50);
  }
  EXPECT_EQ(run.load()[0], load);
  EXPECT_EQ(run.losses()[0].tokens, 3 * 15 + 1);
  EXPECT_EQ(run.losses()[1].tokens, 2 * 15);
}

TEST(CheckpointRun, StoppedEarlyItShowsWhatWasCounted) {
  const SmallCheckpoint folder("stopped_run");
  const CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"one", SmallCheckpoint::some_ids(48)}};
  CheckpointRun run(model, texts, {.texts = {.length = 16}, .sequences = 1});
  run.step();
  TelemetryFrame frame = run.step();
  ASSERT_TRUE(frame.specialisation.empty());  // the tables come with the third of three steps
  run.show_specialisation(frame);
  ASSERT_EQ(frame.specialisation.size(), SmallCheckpoint::kLayers);
  const std::vector<std::uint32_t>& slots = frame.specialisation[0].domain_DE;
  EXPECT_EQ(std::accumulate(slots.begin(), slots.end(), 0u), 2u * 32);
}

TEST(CheckpointRun, ABatchThatNeedsTooMuchMemoryIsRefused) {
  const SmallCheckpoint folder("memory");
  const CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"one", SmallCheckpoint::some_ids(50)}};
  const auto with_memory_for = [&](Index tokens) {
    const TextBatches batches{
        .texts = {.length = 16}, .sequences = 2, .memory = static_cast<double>(model.working_bytes(tokens))};
    return problem_of([&] { CheckpointRun(model, texts, batches); });
  };
  EXPECT_EQ(with_memory_for(32), "");
  const std::string problem = with_memory_for(31);
  EXPECT_EQ(problem.find("--batch 2 x --length 16: a batch of 32 tokens would need "), 0u) << problem;
  EXPECT_TRUE(problem.ends_with(" GiB: choose a smaller --batch or --length")) << problem;
}

TEST(CheckpointModel, SequencesOfOtherLengthsChangeNothing) {
  const SmallCheckpoint folder("ragged");
  const CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(30);
  const std::vector<Index> lengths = {9, 1, 20};
  KeptLogits together;
  model.forward(ids, lengths, together);
  std::size_t first = 0;
  for (const Index length : lengths) {
    const std::vector<std::int32_t> part_ids(ids.begin() + static_cast<std::ptrdiff_t>(first),
                                             ids.begin() + static_cast<std::ptrdiff_t>(first) + length);
    const std::vector<float> part_logits = logits_of(model, part_ids);
    for (std::size_t i = 0; i < part_logits.size(); ++i)
      EXPECT_NEAR(together.all[first * SmallCheckpoint::kVocab + i], part_logits[i], 1e-5) << length << ' ' << i;
    first += static_cast<std::size_t>(length);
  }
}

}  // namespace
}  // namespace moescope
