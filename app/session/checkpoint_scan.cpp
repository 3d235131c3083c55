#include "app/session/checkpoint_scan.h"

#include <QTemporaryDir>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/checkpoints/export_model.h"
#include "core/model/text/dataset.h"
#include "core/training/engine/engine.h"
#include "core/training/trainer.h"

namespace moescope {

namespace {

// Limits on the number of pieces: one for each text, or several for each if there are few texts.
constexpr int kMinPieces = 8, kMaxPieces = 16;

TextSources sourcesOf(const History& run) {
  auto sources = text_sources_in(run.settings_at_start()->log());
  if (!sources) throw std::runtime_error("the recording has no paths of its texts");
  return std::move(*sources);
}

// Writes the weights of a trainer as a checkpoint of transformers.
void exportInto(const QTemporaryDir& folder, const Trainer& trainer) {
  const std::string saved = folder.filePath("run.safetensors").toStdString();
  trainer.save(saved);
  export_for_transformers(saved, folder.filePath("model").toStdString());
}

std::vector<LabelledText> heldOutTexts(const RunConfig& config) {
  std::vector<LabelledText> texts;
  const auto data = open_dataset(config.data, config.seed);
  for (const Batch& batch : data->held_out())
    for (int row = 0; row < batch.sequences; ++row) {
      const auto first = batch.input.begin() + std::ptrdiff_t{row} * batch.length;
      const std::size_t domain = batch.domain[row];
      texts.push_back({domain < data->domains().size() ? data->domains()[domain] : std::string("text"),
                       {first, first + batch.length}});
    }
  if (texts.empty()) throw std::runtime_error("no text is held out: \"Held-out share\" in Set-up is 0");
  return texts;
}

}  // namespace

CheckpointScan::CheckpointScan(const History& run, Measure measure) : measure_(std::move(measure)) {
  start([this, folder = run.info().source, sources = sourcesOf(run)](const std::stop_token& stop) {
    const std::filesystem::path tokens = std::filesystem::path(folder) / "tokenizer.json";
    std::optional<CheckpointTokenizer> opened;
    if (std::filesystem::exists(tokens)) opened = open_checkpoint_tokenizer(folder);
    CheckpointModel model(folder);
    this->measure(model, read_all(sources, opened ? &opened->tokenizer : nullptr).texts, sources.length, stop);
  });
}

CheckpointScan::CheckpointScan(RecomputePlan plan, std::vector<std::int64_t> steps, Measure measure)
    : measure_(std::move(measure)) {
  start([this, plan = std::move(plan), steps = std::move(steps)](const std::stop_token& stop) {
    measureRun(plan, steps, stop);
  });
}

void CheckpointScan::start(std::function<void(const std::stop_token&)> work) {
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    try {
      work(stop);
      if (stop.stop_requested()) error_ = "cancelled";
    } catch (const std::exception& error) {
      error_ = error.what();
    }
    has_ended_ = true;
  });
}

void CheckpointScan::measureRun(const RecomputePlan& plan, const std::vector<std::int64_t>& steps,
                                const std::stop_token& stop) {
  auto wanted_step = steps.begin();
  retrain(
      plan.training,
      [&](Engine& engine) {
        if (stop.stop_requested()) throw std::runtime_error("cancelled");
        next_step_ = engine.next_step();
        if (next_step_ < *wanted_step) return true;
        const QTemporaryDir folder;
        const RunConfig& config = engine.find(0)->config();
        exportInto(folder, *engine.find(0));
        CheckpointModel model(folder.filePath("model").toStdString());
        measure(model, heldOutTexts(config), config.data.seq, stop);
        passes_ = 0;
        return ++wanted_step != steps.end();
      },
      [](const TelemetryFrame&) { return true; });
  if (wanted_step != steps.end()) throw std::runtime_error("the copy did not reach the step");
}

void CheckpointScan::measure(CheckpointModel& model, const std::vector<LabelledText>& texts, Index length,
                             const std::stop_token& stop) {
  const int pieces = std::clamp(to_int(texts.size()), kMinPieces, kMaxPieces);
  measure_(model, texts, {.length = length, .pieces = pieces}, [&](int done, int total) {
    done_ = done;
    passes_ = total;
    return !stop.stop_requested();
  });
  if (!stop.stop_requested()) ++measured_;
}

}  // namespace moescope
