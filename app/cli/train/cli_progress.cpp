#include "app/cli/train/cli_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "app/cli/command_line.h"

namespace moescope {
namespace {

constexpr std::chrono::milliseconds kRedrawEvery{100};
constexpr std::chrono::seconds kLineAtLeastEvery{10};
constexpr int kLines = 20;  // number of plain lines, however long the training is

}  // namespace

std::string duration_text(double seconds) {
  const long total = std::lround(seconds);
  return total >= 3600 ? fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60)
                       : fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string bar_text(double share) {
  constexpr std::size_t kWidth = 20;
  const auto full = static_cast<std::size_t>(kWidth * share + 1e-9);  // a share such as 0.15 may be a bit too low
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(kWidth - full, '.'));
}

void show_count(const char* what, std::int64_t done, std::int64_t total) {
  if (isatty(STDERR_FILENO) != 1) return;
  print_to(stderr, "\r{} {} of {}\x1b[K", what, done, total);
  if (done == total) std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

Progress::Progress(std::FILE* out, std::int64_t first_step, std::int64_t end_step, std::string title, double later)
    : out_(out),
      terminal_(isatty(fileno(out)) == 1),
      first_(first_step),
      end_(end_step),
      title_(title.empty() ? "" : title + ", "),
      later_(later) {}

void Progress::show(const TelemetryFrame& frame) {
  const auto time = Clock::now();
  const std::int64_t done = frame.step + 1 - first_;
  if (done == 1) {
    after_first_step_ = time;
    tokens_after_first_step_ = frame.tokens;
    tokens_per_s_ = frame.tokens_per_s;
    seconds_per_step_ = frame.wall_s;
  } else {
    const double seconds = std::chrono::duration<double>(time - after_first_step_).count();
    tokens_per_s_ = (frame.tokens - tokens_after_first_step_) / seconds;
    seconds_per_step_ = seconds / (done - 1);
  }
  const bool last = frame.step + 1 == end_;
  if (terminal_) {
    if (!last && bar_open_ && time - shown_ < kRedrawEvery) return;
    print_to(out_, "\r{}\x1b[K", line(frame));
    bar_open_ = true;
  } else {
    const std::int64_t line_interval = std::max<std::int64_t>(1, (end_ - first_ + kLines - 1) / kLines);
    if (!last && done != 1 && done % line_interval != 0 && time - shown_ < kLineAtLeastEvery) return;
    print_to(out_, "{}\n", line(frame));
  }
  std::fflush(out_);
  shown_ = time;
}

void Progress::finish() {
  if (bar_open_) std::fputc('\n', out_);
  bar_open_ = false;
}

std::string Progress::line(const TelemetryFrame& frame) const {
  const double steps_left = (end_ - frame.step - 1) + later_ * (end_ - first_);
  const double seconds_left = steps_left * seconds_per_step_;
  const double share = (frame.step + 1 - first_) / static_cast<double>(std::max<std::int64_t>(1, end_ - first_));
  return (terminal_ ? bar_text(share) + ' ' : "") + title_ +
         fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  ETA {}", frame.step + 1, end_, frame.ce_loss,
                     tokens_per_s_, duration_text(seconds_left));
}

}  // namespace moescope
