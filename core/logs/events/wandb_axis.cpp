#include "core/logs/events/wandb_axis.h"

#include "wandb.pb.h"

namespace moescope {

namespace {

// A dot within a name is written "\."; the history has a plain dot.
std::string without_escapes(std::string name) {
  for (std::size_t at = 0; (at = name.find("\\.", at)) != std::string::npos; ++at) name.erase(at, 1);
  return name;
}

}  // namespace

void WandbAxes::define(const wandb::Metric& metric) {
  std::string axis = without_escapes(metric.step_metric());
  if (axis.empty() && !metric.control().overwrite()) return;
  if (axis.empty()) axis = "_step";
  if (axis != "_step") axes_.insert(axis);
  if (!metric.name().empty()) {
    by_name_[without_escapes(metric.name())] = axis;
  } else if (!metric.glob_name().empty()) {
    std::string beginning = without_escapes(metric.glob_name());
    if (beginning.ends_with('*')) beginning.pop_back();
    by_beginning_[beginning] = axis;
  }
}

std::string WandbAxes::axis_of(std::string_view key) const {
  const auto plain = [](const std::string& axis) { return axis == "_step" ? std::string() : axis; };
  if (const auto named = by_name_.find(key); named != by_name_.end()) return plain(named->second);
  for (std::size_t length = key.size() + 1; length-- > 0;)
    if (const auto found = by_beginning_.find(key.substr(0, length)); found != by_beginning_.end())
      return plain(found->second);
  return {};
}

}  // namespace moescope
