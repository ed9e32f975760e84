module cache

go 1.21
