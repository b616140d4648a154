"""Published experiments, run again on the operators of this project: claims, numbers, figures."""
