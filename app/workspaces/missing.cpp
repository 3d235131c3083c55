#include "app/workspaces/missing.h"

#include <algorithm>

namespace moescope {

namespace {

constexpr int kFramesBack = 200;

}  // namespace

QString routersMissing(const History& run, bool (*has)(const RouterFrame&), const char* what) {
  std::shared_ptr<const TelemetryFrame> frame = run.frame_at(INT64_MAX);
  for (int i = 0; frame && i < kFramesBack; ++i, frame = run.frame_at(frame->step - 1))
    if (std::ranges::any_of(frame->routers, has)) return {};
  return what;
}

QString copiesMissing(const History& run) {
  return routersMissing(
      run, [](const RouterFrame& router) { return router.volume.ranks > 0; }, "copies between ranks (\"volume\")");
}

QString loadsMissing(const History& run) {
  return routersMissing(
      run, [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); }, "tokens per expert");
}

QString quantizationMissing(const History& run) {
  return run.quant_frame_at(INT64_MAX) ? QString() : QString("quantization statistics");
}

QString textsMissing(const History& run, TextKind kind) {
  if (!run.text_steps(kind).empty()) return {};
  if (kind == TextKind::batch) return "texts with their routing";
  return kind == TextKind::probe ? "a routed probe text" : "text that the model wrote";
}

}  // namespace moescope
