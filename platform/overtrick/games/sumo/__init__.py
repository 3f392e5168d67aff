"""RoboSumo: two MuJoCo ants that push each other off a mat."""
