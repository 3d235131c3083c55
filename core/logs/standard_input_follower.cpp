#include "core/logs/standard_input_follower.h"

#include <utility>

#include "core/logs/file_follower.h"

namespace moescope {

StandardInputFollower::StandardInputFollower(int run, std::size_t most_runs)
    : StandardInputFollower(std::make_unique<StandardInput>(), run, most_runs) {}

StandardInputFollower::StandardInputFollower(std::unique_ptr<StandardInput> input, int run, std::size_t most_runs)
    : Follower(kStandardInputName), input_(std::move(input)), run_(run), most_runs_(most_runs) {
  thread_ = std::jthread([this](const std::stop_token& stop) { read(stop); });
}

void StandardInputFollower::read(const std::stop_token& stop) {
  if (!input_->wait_for_line(stop)) return;
  begin();
  if (!input_->wait_for_end(stop)) return;
  lines_->finish();
  has_ended_ = true;
}

void StandardInputFollower::begin() {
  auto follower = follow_file(input_->path(), run_, most_runs_);
  const std::lock_guard lock(mutex_);
  lines_ = std::move(follower);
}

void StandardInputFollower::finish() {
  thread_ = {};
  if (has_ended_) return;
  if (!lines_) begin();
  lines_->finish();
}

const Follower* StandardInputFollower::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_.get();
}

std::vector<std::string> StandardInputFollower::remarks() const {
  std::vector<std::string> remarks = of_lines(&Follower::remarks);
  for (std::string& remark : remarks) remark = named_standard_input(std::move(remark));
  return remarks;
}
std::string StandardInputFollower::amount() const {
  const Follower* follower = lines();
  return (follower ? follower->amount() : "no line yet") + (has_ended_ ? ", ended" : "");
}
std::string StandardInputFollower::problem() const {
  const Follower* follower = lines();
  const std::string copying = input_->problem();
  return copying.empty() && follower ? named_standard_input(follower->problem()) : copying;
}

}  // namespace moescope
