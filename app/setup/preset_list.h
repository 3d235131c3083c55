// The presets, each with what a run of it costs beside its name while the list is open.
#pragma once

#include <QComboBox>
#include <functional>

namespace moescope {

class PresetList : public QComboBox {
  Q_OBJECT

 public:
  explicit PresetList(QWidget* parent = nullptr);

  void choose(const QString& preset);  // emits nothing; no such one: own settings

  struct Cost {
    QString in_short;  // beside the name: "0.5 M parameters, 8.5 MB, 2,000 steps in about 40 s"
    QString whole;     // tool tip, with where each figure comes from
  };
  void setCost(std::function<Cost(const QString& preset)> cost) { cost_ = std::move(cost); }

  void showPopup() override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::function<Cost(const QString&)> cost_;
};

}  // namespace moescope
