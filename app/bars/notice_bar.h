// A line above the panels, for what the user must not overlook; it stays until closed or no longer true.
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
