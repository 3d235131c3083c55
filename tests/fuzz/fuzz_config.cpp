// libFuzzer over run configs, lessons, queues of candidates and set-up links: any text gives settings or problems;
// settings without a problem are written and read back as the same settings. How to run: CONTRIBUTING.md.
#include <stdexcept>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/config/setup_link.h"
#include "core/lessons/lesson.h"
#include "core/training/engine/run_queue.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ParsedConfig parsed = parse_config(text, "fuzzed.toml");
  for (const ConfigProblem& problem : parsed.problems) require(!problem.text().empty(), "a problem has words");
  if (parsed.problems.empty()) {
    require(validate(parsed.config).empty(), "what was accepted is valid");
    const ParsedConfig reread = parse_config(to_toml(parsed.config), "again.toml");
    require(reread.problems.empty(), "what was accepted can be written and read again");
    require(difference(parsed.config, reread.config).empty(), "and is the same");
    SharedSetup setup;
    setup.configs = {parsed.config};
    if (size < 10000)  // a link is short
      require(difference(read_setup_link(setup_link(setup)).configs.front(), parsed.config).empty(), "a link holds it");
    require(all_runs(parsed).size() == parsed.twins.size() + 1, "twins are runs");
  }
  try {
    require(!read_setup_link(text).configs.empty(), "a set-up is of a run");
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).ends_with('.'), "a refusal is a sentence");
  }
  parse_lesson(text, "fuzzed.toml");
  try {
    const QueueState queue = parse_queue(text, "fuzzed.queue");
    require(queue.runs.size() > 1 && queue.steps > 0, "a queue has candidates and steps");
  } catch (const std::runtime_error&) {
  }
  return 0;
}
