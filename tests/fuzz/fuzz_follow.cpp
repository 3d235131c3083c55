// libFuzzer over following a log: the input says how another program changes a file, by appending, cutting, overwriting
// and writing it anew. After each change the follower looks, and must then know what reading the file from its
// beginning gives, unless it says that the file was truncated or replaced: it then keeps earlier steps. How to run:
// CONTRIBUTING.md.
//
// A change is 3 bytes and its text: its kind (0 to 3), and the length of the text (low byte first).
#include <algorithm>
#include <memory>
#include <string>

#include "core/logs/followed.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

namespace {

constexpr std::size_t kRecognised = 4096;  // the follower compares these bytes (log_follower.cpp)

void act(int what, std::string_view text, std::string& file) {
  switch (what) {
    case 0:
      file += text;
      return;
    case 1:
      return file.resize(std::min(file.size(), text.size()));
    case 2:  // overwrites the beginning, and keeps the rest
      file.replace(0, text.size(), text);
      return;
    default:
      file = text;
  }
}

void require_same(const Followed& followed, const std::string& file) {
  LogReader reader("followed");
  LineSplitter lines;
  lines.add(file, reader);
  require(std::stoll(followed.amount()) == reader.lines(), "the lines of the file as it is now");
  require(followed.bad().count() == reader.bad().count(), "its bad lines");
  const auto histories = followed.histories(), read = reader.histories();
  require(histories.size() == read.size(), "its runs");
  for (std::size_t i = 0; i < read.size(); ++i) {
    require(histories[i]->steps() == read[i]->steps(), "their steps");
    const auto losses_of = [&](const History& run) { return run.values_in(Metric::ce_loss, kWholeRun, run.steps()); };
    const auto is_same = [](float a, float b) { return a == b || (a != a && b != b); };
    require(std::ranges::equal(losses_of(*histories[i]), losses_of(*read[i]), is_same), "their losses");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  std::string_view unread(reinterpret_cast<const char*>(data), size);
  std::string file;
  const std::string path = as_file(data, 0);
  const std::unique_ptr<Followed> followed = follow_lines(path, {});
  while (unread.size() >= 3 && file.size() < kRecognised) {
    const int what = unread[0] & 3;
    const std::size_t length =
        static_cast<std::uint8_t>(unread[1]) + 256u * (static_cast<std::uint8_t>(unread[2]) % 8u);
    unread.remove_prefix(3);
    const std::string_view text = unread.substr(0, length);
    unread.remove_prefix(text.size());
    act(what, text, file);
    as_file(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
    followed->look({});
    const bool follows_one_file = followed->problem().empty() && followed->restart_remarks().empty();
    if (file.size() < kRecognised && follows_one_file) require_same(*followed, file);
  }
  return 0;
}
