// Axes over which a run of W&B logged its keys, as defined by define_metric().
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace moescope {

namespace wandb {
class Metric;
}  // namespace wandb

class WandbAxes {
 public:
  void define(const wandb::Metric& metric);
  // Returns the axis of a key; empty: _step. Exact names take precedence over patterns, long patterns over short ones.
  std::string axis_of(std::string_view key) const;
  bool is_axis(const std::string& key) const { return axes_.contains(key); }

 private:
  std::map<std::string, std::string, std::less<>> by_name_, by_beginning_;
  std::set<std::string> axes_;
};

}  // namespace moescope
