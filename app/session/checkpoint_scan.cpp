#include "app/session/checkpoint_scan.h"

#include <QTemporaryDir>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/checkpoints/export_model.h"
#include "core/data/dataset.h"
#include "core/training/engine/engine.h"
#include "core/training/trainer.h"

namespace moescope {

namespace {

// Each text once, and of few texts several pieces.
constexpr int kLeastPieces = 8, kMostPieces = 16;

TextSources sourcesOf(const History& run) {
  auto sources = text_sources_in(run.settings_at_start()->log());
  if (!sources) throw std::runtime_error("the recording has no paths of its texts");
  return std::move(*sources);
}

}  // namespace

CheckpointScan::CheckpointScan(const History& run, Measure measure) : measure_(std::move(measure)) {
  open_ = [folder = run.info().source, sources = sourcesOf(run)](const std::stop_token&) {
    const std::filesystem::path tokens = std::filesystem::path(folder) / "tokenizer.json";
    std::optional<Tokenizer> tokenizer;
    if (std::filesystem::exists(tokens)) tokenizer.emplace(tokens.string());
    return Source{.folder = nullptr,
                  .model = std::make_unique<CheckpointModel>(folder),
                  .texts = read_all(sources, tokenizer ? &*tokenizer : nullptr),
                  .length = sources.length};
  };
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

CheckpointScan::CheckpointScan(RecomputePlan plan, Measure measure) : measure_(std::move(measure)) {
  open_ = [this, plan = std::move(plan)](const std::stop_token& stop) { return weightsBefore(plan, stop); };
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

CheckpointScan::~CheckpointScan() = default;

// As a checkpoint of transformers, whose tokens are bytes.
CheckpointScan::Source CheckpointScan::weightsBefore(const RecomputePlan& plan, const std::stop_token& stop) {
  const auto folder = std::make_shared<QTemporaryDir>();
  const std::string saved = folder->filePath("run.safetensors").toStdString(),
                    exported = folder->filePath("model").toStdString();
  std::optional<RunConfig> config;
  retrain(
      plan.training,
      [&](Engine& engine) {
        if (stop.stop_requested()) throw std::runtime_error("cancelled");
        next_step_ = engine.next_step();
        if (next_step_ < plan.step) return true;
        config = engine.find(0)->config();
        engine.find(0)->save(saved);
        return false;
      },
      [](const TelemetryFrame&) { return true; });
  if (!config) throw std::runtime_error("the copy did not reach the step");
  export_for_transformers(saved, exported);
  Source source{
      .folder = folder, .model = std::make_unique<CheckpointModel>(exported), .texts = {}, .length = config->data.seq};
  const auto data = open_dataset(config->data, config->seed);
  for (const Batch& batch : data->held_out())
    for (int row = 0; row < batch.sequences; ++row) {
      const auto first = batch.input.begin() + std::ptrdiff_t{row} * batch.length;
      const auto domain = static_cast<std::size_t>(batch.domain[static_cast<std::size_t>(row)]);
      source.texts.push_back({domain < data->domains().size() ? data->domains()[domain] : std::string("text"),
                              {first, first + batch.length}});
    }
  if (source.texts.empty()) throw std::runtime_error("no text is held out (data.held_out)");
  return source;
}

void CheckpointScan::work(const std::stop_token& stop) {
  try {
    const Source source = open_(stop);
    const int pieces = std::clamp(static_cast<int>(source.texts.size()), kLeastPieces, kMostPieces);
    measure_(*source.model, source.texts, {.length = source.length, .pieces = pieces}, [&](int done, int of) {
      done_ = done, of_ = of;
      return !stop.stop_requested();
    });
    if (stop.stop_requested()) error_ = "cancelled";
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  over_ = true;
}

}  // namespace moescope
