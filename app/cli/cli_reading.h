// Shared by the commands that open runs: options for files of other programs, and messages on standard error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/cluster/model_shape.h"
#include "core/cluster/ranks/placement.h"
#include "core/frame/frame.h"
#include "core/logs/open_runs.h"
#include "core/recording/recording.h"

namespace moescope {

// Shared by predict and volumes: a step of a recording, the experts of tokens, and placements of the experts.
struct RecordedStep {
  RunInfo info;
  std::shared_ptr<const TelemetryFrame> frame;  // frame with router statistics
};
// Reads the newest step with router statistics at or before `step`; -1: the last one. Throws std::runtime_error if
// there is no such run or step.
RecordedStep recorded_step(const std::string& path, int run, std::int64_t step);

struct RoutingOptions {
  std::string routing = "forced";  // a rule, or a recording, whose recorded load is used
  int run = 0, layer = -1;         // for a recording; layer -1: the most uneven layer
  std::int64_t step = -1;          // for a recording; -1: the last step
  bool node_limited = false;       // for a recording: a token uses only as many expert groups as the shape allows
  std::string placement = "contiguous";
  int ranks = 32, ranks_per_node = 8;
  int slots = 0;  // slots of a rank for the placement "balanced"; 0: as many as needed
  std::int64_t seed = 1;
  // True if `routing` names a file with a recorded load, false if it names a rule.
  bool names_file() const;
};

// What the help of a command adds: other routings, and the default of --layer for them.
struct RoutingHelp {
  std::string routing = {}, layer = {};
};
// Adds --routing, --run, --step, --layer, --placement, --slots, --ranks-per-node and --seed. Returns --routing.
Option add_routing_options(Command& command, RoutingOptions& o, const RoutingHelp& help);

struct ChosenExperts {
  std::vector<std::int32_t> topk_TK;
  std::string name;                 // description of the routing
  std::vector<std::uint32_t> load;  // recorded tokens of each expert; empty for a rule
};
// Returns the experts of `tokens` tokens. Throws std::runtime_error if recorded_step() does, if the layer counted no
// tokens, or if there is no such rule; the message then names the rules.
ChosenExperts choose_experts(const RoutingOptions& options, const ModelShape& shape, std::int64_t tokens);

// topk_TK: routing by which "balanced" places the experts. Throws std::runtime_error, which names the placements, if
// there is no placement of this name.
Placement placement_named(const RoutingOptions& options, std::span<const std::int32_t> topk_TK,
                          const ModelShape& shape);

// Adds --layers, --top-k and --experts, for files of routed experts that do not state their shape.
void add_routed_options(Command& command, RoutedShape& routed);
// Returns `file`, or for "-" the copy of standard input, after it has ended. The copy lasts as long as the program.
// Throws std::runtime_error if standard input is a terminal, cannot be read, or is named for the second time.
std::string input_path(const std::string& file);
// Adds --run, for files that hold several runs.
void add_run_option(Command& command, std::string& run);
// Opens the run of this name, or all runs of the file if `run` is empty. Throws std::runtime_error if there is none.
OpenedRuns read_runs(const std::string& file, const std::string& run, const RoutedShape& routed = {});

void print_missing(const RecordingReader& recording);  // prints which parts are known to be missing
void print_remarks(const OpenedRuns& opened);          // prints restarts and unknown names
void print_notes(const OpenedRuns& opened);            // prints the remarks and the number of unreadable lines

}  // namespace moescope
