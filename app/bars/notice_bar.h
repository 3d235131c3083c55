// A line above the panels, for what the user must not overlook, or is offered; it stays until closed or no longer true.
#pragma once

#include <QFrame>
#include <QLabel>
#include <functional>

class QToolButton;

namespace moescope {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void showNotice(const QString& text);  // empty: hides it
  // With a button that does it, and takes the line away.
  void offer(const QString& text, const QString& button, std::function<void()> action);
  bool offers() const { return !isHidden() && action_; }
  QString text() const { return text_->text(); }

 protected:
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void takeColors();

  QLabel* text_;
  QToolButton *button_, *close_;
  std::function<void()> action_;
};

}  // namespace moescope
