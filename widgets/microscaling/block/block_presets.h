// Example blocks for the microscope.
#pragma once

#include <QString>
#include <vector>

namespace moescope {

struct BlockPreset {
  QString name, lesson;
  std::vector<float> values;  // 32 values
};
const std::vector<BlockPreset>& blockPresets();

}  // namespace moescope
