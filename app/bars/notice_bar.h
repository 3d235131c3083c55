// A line over the panels that stays until it is closed or no longer holds: what a person must not overlook while
// looking elsewhere.
#pragma once

#include <QFrame>
#include <QLabel>

namespace moescope {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void showNotice(const QString& text);  // empty: hides it
  QString text() const { return text_->text(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void takeColors();

  QLabel* text_;
};

}  // namespace moescope
