// Writes the measured phases of each step of a recording as a Chrome trace.
//
// Each run is a process of the trace. A step ends at the wall time of its frame. The duration of a phase is its sum
// over the step (all layers, forward and backward); phases are drawn end to end in the order of the enumerators of
// Phase. Their durations are measured, their positions within the step are not. Counters: cross-entropy loss, tokens/s,
// and all-to-all time by rank if experts were spread over processes.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/files/whole_file.h"
#include "core/logs/log_exports.h"
#include "core/numerics/processor.h"
#include "core/recording/recording.h"

namespace moescope {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kStepThread = 1, kPhaseThread = 2;

// Writes one event per line, separated by commas.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : file_(path) {
    file_.write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  }
  void event(const Json& event) {
    file_.write((first_ ? "" : ",\n") + event.dump());
    first_ = false;
  }
  void finish() {
    file_.write("\n]}\n");
    file_.finish();
  }

 private:
  WholeFile file_;
  bool first_ = true;
};

void name_process(TraceFile& trace, const RunInfo& info) {
  const auto state = [&](const char* what, const char* key, const std::string& text, int thread) {
    Json event = {{"name", what}, {"ph", "M"}, {"pid", info.run}};
    if (thread > 0) event["tid"] = thread;
    event["args"] = {{key, text}};
    trace.event(event);
  };
  state("process_name", "name", info.name, 0);
  if (const std::string units = multiplied_by(info.kernels); !units.empty())
    state("process_labels", "labels", "GEMMs: " + units, 0);
  state("thread_name", "name", "steps", kStepThread);
  state("thread_name", "name", "phases (lengths measured, order within a step is not)", kPhaseThread);
}

Json slice(const char* category, const std::string& name, const TelemetryFrame& frame, int thread, double from_us,
           double us) {
  return {{"name", name},  {"cat", category}, {"ph", "X"}, {"pid", frame.run},
          {"tid", thread}, {"ts", from_us},   {"dur", us}};
}

void counter(TraceFile& trace, const TelemetryFrame& frame, const char* name, double at_us, const Json& values) {
  trace.event({{"name", name}, {"ph", "C"}, {"pid", frame.run}, {"ts", at_us}, {"args", values}});
}

void put_step(TraceFile& trace, const TelemetryFrame& frame) {
  if (!std::isfinite(frame.wall_s)) return;
  double total_ms = 0;
  for (const float ms : frame.phase_ms)
    if (std::isfinite(ms)) total_ms += ms;
  const double end_us = 1e6 * frame.wall_s;
  double at_us = std::max(0.0, end_us - 1e3 * total_ms);  // phases are rounded, so their sum may exceed the first step
  Json step = slice("step", fmt::format("step {}", frame.step), frame, kStepThread, at_us, 1e3 * total_ms);
  step["args"] = {{"step", frame.step}, {"tokens_seen", frame.tokens}};
  if (std::isfinite(frame.ce_loss)) step["args"]["ce_loss"] = frame.ce_loss;
  trace.event(step);
  for (int p = 0; p < kNumPhases; ++p) {
    const float ms = frame.phase_ms[p];
    if (!std::isfinite(ms) || ms <= 0) continue;
    const double us = 1e3 * ms;
    trace.event(slice("phase", phase_name(static_cast<Phase>(p)), frame, kPhaseThread, at_us, us));
    at_us += us;
  }
  if (std::isfinite(frame.ce_loss)) counter(trace, frame, "ce_loss, nats/token", end_us, {{"ce_loss", frame.ce_loss}});
  if (std::isfinite(frame.tokens_per_s))
    counter(trace, frame, "tokens/s", end_us, {{"tokens_per_s", frame.tokens_per_s}});
  Json waits;
  for (std::size_t rank = 0; rank < frame.wire.all_to_all_ms_R.size(); ++rank)
    waits[fmt::format("rank {}", rank)] = frame.wire.all_to_all_ms_R[rank];
  if (!waits.empty()) counter(trace, frame, "all-to-all, ms, waiting included", end_us, waits);
}

}  // namespace

bool export_trace(const std::string& recording, const std::string& path, const std::function<bool(double)>& progress) {
  const RecordingReader reader(recording);
  TraceFile trace(path);
  double done = 0;
  for (const RunInfo& info : reader.runs()) {
    name_process(trace, info);
    bool cancelled = false;
    reader.read(info.run, [&](const std::shared_ptr<const TelemetryFrame>& frame, double share) {
      put_step(trace, *frame);
      cancelled = progress && frame->step % 64 == 0 && !progress((done + share) / reader.runs().size());
      return !cancelled;
    });
    if (cancelled) return false;
    done += 1;
  }
  trace.finish();
  return true;
}

}  // namespace moescope
