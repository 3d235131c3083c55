// One item of the status line: a dot and words, of which the longest form that is allowed is shown.
#pragma once

#include <QToolButton>
#include <optional>

namespace moescope {

class StatusItem : public QToolButton {
 public:
  explicit StatusItem(QWidget* parent = nullptr);

  void setForms(const QStringList& long_to_short, std::optional<QRgb> dot = std::nullopt);  // none: not there
  void setForm(int form);  // 0: the longest; one more than there are: hidden
  int forms() const { return static_cast<int>(forms_.size()); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QStringList forms_;
  std::optional<QRgb> dot_;
};

}  // namespace moescope
