// The list of presets. While it is open, it has words beside each name: what the preset is, or what a run costs.
#pragma once

#include <QComboBox>
#include <functional>

namespace moescope {

class PresetList : public QComboBox {
 public:
  PresetList();

  struct Words {
    QString in_short;  // beside the name
    QString whole;     // tool tip
  };
  void setWords(std::function<Words(const QString& preset)> words) { words_ = std::move(words); }
  void showPopup() override;

 private:
  std::function<Words(const QString&)> words_;
};

// What the preset is, in its first sentence: "DeepSeek-V3 in miniature".
QString presetSubject(const QString& preset);

}  // namespace moescope
