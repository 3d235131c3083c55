#include "core/telemetry/logs/import.h"

#include <algorithm>

#include "core/io/text_escape.h"

namespace moescope {

constexpr std::int64_t kMaxWindowCounts = std::int64_t{1} << 26;

void BadLines::add(std::int64_t number, std::string why) {
  ++count_;
  if (first_.size() < kKept) first_.push_back({number, std::move(why)});
}

std::string BadLines::summary() const {
  if (count_ == 0) return {};
  const BadLine& first = first_.front();
  return std::to_string(count_) + " " + unit_ + (count_ == 1 ? "" : "s") + " could not be read, the first: " + unit_ +
         " " + std::to_string(first.number) + ": " + first.why;
}

std::string BadLines::text() const {
  std::string out;
  for (const BadLine& bad : first_)
    out += std::string(unit_) + " " + std::to_string(bad.number) + ": " + bad.why + '\n';
  const auto more = count_ - static_cast<std::int64_t>(first_.size());
  if (more > 0) out += "and " + std::to_string(more) + " more\n";
  return out;
}

ImportedRun::ImportedRun(RunInfo info, const ImportOptions& options) : options_(&options) {
  info.name = printable(info.name);  // one line, wherever it is shown
  if (info.window <= 0) info.window = kImportWindow;
  // Every layer's window keeps its counts: a claim of 100,000 steps must not take the memory.
  const std::int64_t loads = std::max<std::int64_t>(1, std::ssize(info.moe_layers) * std::int64_t{info.n_experts});
  info.window = static_cast<int>(std::clamp<std::int64_t>(kMaxWindowCounts / loads, 1, info.window));
  history_ = std::make_shared<History>(std::move(info), options.array_budget_bytes);
  if (options.on_run) options.on_run(history_->info());
}

void ImportedRun::judge(RouterFrame& router, std::int64_t steps_since) {
  const auto& counts = router.tokens_per_expert;
  const auto fill = [](float& value, float judged) {
    if (is_missing(value)) value = judged;
  };
  const LoadFigures figures = load_figures(counts, 32);
  fill(router.max_vio, figures.max_vio);
  fill(router.cv, figures.cv);
  fill(router.entropy_norm, figures.entropy_norm);
  fill(router.padding_fraction, figures.padding_fraction);
  const int steps = info().window;
  LoadWindow& window = windows_.try_emplace(router.layer, static_cast<int>(counts.size()), steps).first->second;
  if (steps_since > 1) {
    const std::vector<std::uint32_t> not_recorded(counts.size());
    for (std::int64_t i = 1; i < std::min<std::int64_t>(steps_since, steps); ++i) window.push(not_recorded);
  }
  window.push(counts);
  fill(router.max_vio_window, max_vio(window.counts()));
  fill(router.dead_fraction, dead_fraction(window.counts()));
}

void ImportedRun::add(TelemetryFrame frame) {
  if (frame.step <= last_step_) windows_.clear();
  for (RouterFrame& router : frame.routers) {
    if (!router.tokens_per_expert.empty()) judge(router, frame.step - last_step_);
  }
  last_step_ = frame.step;
  frame.run = info().run;
  if (frame.tokens == 0) frame.tokens = info().tokens_per_step * (frame.step + 1);
  const auto shared = std::make_shared<const TelemetryFrame>(std::move(frame));
  history_->append(shared);
  if (options_->on_frame) options_->on_frame(shared);
  ++steps_;
}

void ImportedRun::add(Marker marker) {
  marker.run = info().run;
  if (options_->on_marker) options_->on_marker(marker);
  history_->append(std::move(marker));
}

}  // namespace moescope
