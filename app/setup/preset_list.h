// The list of presets. While it is open, it shows the cost of a run beside each name.
#pragma once

#include <QComboBox>
#include <functional>

namespace moescope {

class PresetList : public QComboBox {
  Q_OBJECT

 public:
  explicit PresetList(QWidget* parent = nullptr);

  struct Cost {
    QString in_short;  // shown beside the name: "0.5 M parameters, 8.5 MB, 2,000 steps in about 40 s"
    QString whole;     // tool tip, with the source of each figure
  };
  void setCost(std::function<Cost(const QString& preset)> cost) { cost_ = std::move(cost); }

  void showPopup() override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::function<Cost(const QString&)> cost_;
};

}  // namespace moescope
