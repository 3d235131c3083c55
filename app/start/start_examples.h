// Small example pictures for the five questions of the Overview, drawn from invented figures.
#pragma once

#include <QWidget>

namespace moescope {

enum class StartExample { verdict, loss, load, all_to_all, format };

class StartExamplePicture : public QWidget {
 public:
  explicit StartExamplePicture(StartExample which, QWidget* parent = nullptr);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  StartExample which_;
};

}  // namespace moescope
