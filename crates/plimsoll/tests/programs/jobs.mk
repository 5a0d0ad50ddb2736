# Jobs of shells with pipelines.
SHELL = /bin/sh
JOBS = $(foreach number,0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23,job$(number))

all: $(JOBS)
	@cat $(addsuffix .txt,$(JOBS)) | sort | cksum
	@rm -f $(addsuffix .txt,$(JOBS))

$(JOBS):
	@seq 1 4000 | awk '{ print ($$1 * 7919) % 4001, "$@" }' | sort -n | (cat; echo "$$(echo $@ | tr j J)") >$@.txt

.PHONY: all $(JOBS)
