#include "core/logs/follower.h"

#include <fmt/core.h>

#include <condition_variable>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/logs/file_kind.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/table/table_form.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

// Files that do not exist yet or hold no runs yet are read by their new lines, except for names of tables.
std::unique_ptr<Followed> followed_at(const std::string& path, const ImportOptions& options) {
  FileKind kind = is_named_csv(path) ? FileKind::load_table : FileKind::training_log;
  bool are_in_turn = false;
  try {
    if (fs::is_directory(path) || fs::file_size(path) > 0) kind = file_kind(path, options);
    are_in_turn = kind == FileKind::training_log && fs::exists(path) && has_ranks_in_turn(path, options);
  } catch (const std::runtime_error&) {  // the file does not exist yet or cannot be read, which is told later
  }
  const bool are_lines = kind == FileKind::training_log || kind == FileKind::text_log || !holds_runs(kind);
  return (are_lines && !are_in_turn ? follow_lines : follow_whole)(path, options);
}

}  // namespace

std::string truncated_text(std::int64_t last_step) {
  const std::string text = "the file was truncated or replaced";
  return last_step < 0 ? text : fmt::format("{} after step {}", text, last_step);
}

std::string kept_text(std::int64_t last_step) {
  return fmt::format("its steps go on: the steps up to {} are kept", last_step);
}

std::string dropped_text(std::int64_t last_step) {
  return fmt::format("it does not go on: the steps up to {} are no longer shown", last_step);
}

Follower::Follower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only,
                   const StatedLog& stated)
    : input_(path == kStandardInput ? std::make_unique<StandardInput>() : nullptr),
      path_(named_standard_input(std::move(path))) {
  options_.run = run;
  options_.most_runs = most_runs;
  options_.only = std::move(only);
  stated.put_into(options_);
  if (!input_) begin();
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

// `stop`: if what is followed replaces another, which is shown until it has been read.
void Follower::begin(const std::stop_token* stop) {
  auto followed = followed_at(input_ ? input_->path() : path_, options_);
  if (stop) followed->look(*stop);
  const std::lock_guard lock(mutex_);
  followed_ = std::move(followed);
}

void Follower::follow(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  if (input_ && !input_->wait_for_line(stop)) return;
  if (input_) begin();
  do {
    if (input_ && input_->has_ended()) {
      followed_->finish();
      has_ended_ = true;
      return;
    }
    followed_->look(stop);
    if (followed_->has_ranks_in_turn() && !std::exchange(is_begun_again_, true)) begin(&stop);
  } while (!stopped.wait_for(lock, stop, followed_->pause(), [&] { return stop.stop_requested(); }));
}

void Follower::finish() {
  thread_ = {};
  if (has_ended_) return;
  if (!followed_) begin();
  followed_->finish();
}

std::vector<std::string> Follower::remarks() const {
  std::vector<std::string> remarks = value_of(&Followed::remarks);
  for (std::string& remark : remarks) remark = named_standard_input(std::move(remark));
  return remarks;
}

std::string Follower::amount() const {
  const std::string amount = value_of(&Followed::amount);
  return (amount.empty() ? "no line yet" : amount) + (has_ended_ ? ", ended" : "");
}

std::string Follower::problem() const {
  const std::string copying = input_ ? input_->problem() : std::string();
  return copying.empty() ? named_standard_input(value_of(&Followed::problem)) : copying;
}

}  // namespace moescope
